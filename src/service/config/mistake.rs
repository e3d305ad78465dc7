//! What can be wrong with a pipeline file: one variant a mistake, with its sentence and its hint.

use std::fmt;
use std::io;
use std::path::PathBuf;

use granit_parser::ScanError;
use thiserror::Error;

use super::name::{NAME_CHARS_MAX, TOPIC_CHARS_MAX};
use super::secret::REDACTED;

/// A value of the file as a problem may show it: in quotes, or redacted when it came from a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown(Option<String>);

impl Shown {
    pub(super) fn plain(text: &str) -> Self {
        Self(Some(text.to_owned()))
    }

    pub(super) fn redacted() -> Self {
        Self(None)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(text) => write!(formatter, "{text:?}"),
            None => formatter.write_str(REDACTED),
        }
    }
}

/// One side of a comparison between two keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub(super) path: String,
    pub(super) value: String,
    /// `None`: the value is the default.
    pub(super) line: Option<usize>,
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, value, line } = self;
        match line {
            Some(line) => write!(formatter, "{path} = {value} (line {line})"),
            None => write!(formatter, "{path} = {value} (default)"),
        }
    }
}

/// What is wrong at one place. All of them are *Fatal*: the pipeline is not started.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the sentence of each variant is its documentation")]
pub enum Mistake {
    // The file.
    #[error("the pipeline file cannot be read")]
    FileUnreadable { source: io::Error },
    #[error("the pipeline file is larger than {bytes_max} bytes")]
    FileTooLarge { bytes_max: u64 },
    #[error("the file is empty")]
    NoDocument,
    #[error("a second document begins here; a pipeline file holds exactly one")]
    SecondDocument,
    // The scanner's error is no `#[source]`: its text would give the position once more.
    #[error("not valid YAML: {}", scan.kind())]
    Syntax { scan: ScanError },
    #[error("anchors and aliases (& and *) are not supported")]
    AnchorUsed,
    // Without its text: it may be a password that begins with '!'. The same holds for aliases.
    #[error("tags (!) are not supported")]
    TagUsed,
    #[error("a key must be plain text, not a list or a mapping")]
    KeyNotText,
    #[error("the key {key:?} is given twice; it was first given on line {line_first}")]
    DuplicateKey { key: String, line_first: usize },

    // References.
    #[error("the reference that begins with \"${{\" has no closing brace")]
    ReferenceOpen,
    #[error("the reference is neither ${{NAME}} nor ${{file:/path}}")]
    ReferenceMalformed,
    #[error("the environment variable {name} is not set")]
    VariableUnset { name: String },
    #[error("the path of ${{file:{path}}} is not absolute", path = path.display())]
    SecretFileRelative { path: PathBuf },
    #[error("the file {path} cannot be read", path = path.display())]
    SecretFileUnreadable { path: PathBuf, source: io::Error },
    #[error("the file {path} is larger than {bytes_max} bytes", path = path.display())]
    SecretFileTooLarge { path: PathBuf, bytes_max: u64 },

    // Shapes.
    #[error("unknown key {key:?}")]
    UnknownKey { key: String, nearest: Option<String>, known: Vec<String> },
    #[error("this key is required")]
    Missing,
    #[error("no value is given")]
    Empty,
    #[error("expected {expected}, found {found}")]
    WrongShape { expected: &'static str, found: &'static str },
    #[error("one of {one:?} and {many:?} is required")]
    NeitherGiven { one: &'static str, many: &'static str },
    #[error("{many:?} is given beside {one:?} (line {line_one}); only one of the two may be")]
    BothGiven { one: &'static str, many: &'static str, line_one: usize },

    // Single values.
    #[error("expected a whole number, found {found}")]
    NotInteger { found: Shown },
    #[error("expected a duration, found {found}")]
    NotDuration { found: Shown },
    #[error("expected a size in bytes, found {found}")]
    NotSize { found: Shown },
    #[error("{found} is out of range: {least} to {most}, both inclusive")]
    OutOfRange { found: Shown, least: String, most: String },
    #[error("{found} is not one of the known values")]
    NotAChoice { found: Shown, nearest: Option<String>, known: Vec<String> },
    #[error("{found} is not a valid name")]
    NotAName { found: Shown },
    #[error("the name {found} contains ':'")]
    SeparatorInName { found: Shown },
    #[error("{found} is not a topic name that Kafka accepts")]
    NotATopic { found: Shown },
    #[error("{found} is not a JSON pointer into the output value")]
    NotAPointer { found: Shown },
    #[error("{found} is not a socket address")]
    NotAnAddress { found: Shown },
    #[error("the number {found} cannot be handed on without loss")]
    NumberNotJson { found: Shown },

    // Steps and topics.
    #[error("a pipeline needs at least one input; the list is empty")]
    NoInput,
    #[error("a pipeline needs one process step; the list is empty")]
    NoStep,
    #[error("only one step is possible for now; this is number {number}")]
    StepTooMany { number: usize },
    #[error("the step id {id} is used twice; it was first used on line {line_first}")]
    DuplicateStep { id: Shown, line_first: usize },
    #[error("the built-in step {operator:?} is not available yet")]
    OperatorUnavailable { operator: String },
    #[error("unknown processor {name}")]
    UnknownProcessor { name: Shown, nearest: Option<String>, registered: Vec<String> },
    #[error("the topic {topic} is read by {input} (line {line_input}) and written here: an endless loop")]
    Loop { topic: Shown, input: String, line_input: usize },
    #[error("the input topic {topic} is given twice; it was first given on line {line_first}")]
    DuplicateInput { topic: Shown, line_first: usize },
    #[error("{these} but {those}: {reason}")]
    PartitionsDiffer { these: Box<Bound>, those: Box<Bound>, reason: &'static str },
    #[error("the dead letters would go to {topic}, the topic of {output} (line {line_output})")]
    DeadLettersInOutput { topic: Shown, output: String, line_output: usize },
    #[error("no output has the name \"default\"")]
    NoDefaultOutput,
    #[error("a key cannot be taken from a value of format \"bytes\"")]
    KeyOfBytes,

    // Time-outs and groups.
    #[error("{shorter} must be shorter than {longer}: {reason}")]
    TimeoutOrder { shorter: Box<Bound>, longer: Box<Bound>, reason: &'static str },
    #[error(
        "{}, {} and {} are together {sum}, which must be shorter than {longer}: a batch must end before the group gives \
         the member up", parts[0], parts[1], parts[2]
    )]
    DeadlineSum { parts: Box<[Bound; 3]>, sum: String, longer: Bound },
    #[error("with the consumer protocol the broker decides the session time-out; {session} would have no effect")]
    SessionOfBroker { session: Bound },

    // Client properties.
    #[error("{name} = {asked} was asked for, but Transom uses {name} = {ours}: {reason}")]
    PropertyRefused { name: String, asked: Shown, ours: String, reason: &'static str, instead: &'static str },
    #[error("{name} cannot differ between the consumer and the producer")]
    TwoClusters { name: String },
    #[error("the prefix {prefix:?} is not followed by the name of a property")]
    PropertyUnnamed { prefix: &'static str },
}

impl Mistake {
    /// Returns whether the line may be shown beside it. Where the tree is incomplete nobody knows what the line holds.
    pub(super) fn line_is_known(&self) -> bool {
        !matches!(self, Self::KeyNotText | Self::SecondDocument)
    }

    /// Returns what to do about it, where the sentence alone does not say so.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let fixed = match self {
            Self::UnknownKey { nearest, known, .. } | Self::NotAChoice { nearest, known, .. } => {
                return Some(choices("known", nearest.as_deref(), known));
            }
            Self::UnknownProcessor { nearest, registered, .. } => {
                return Some(choices("registered", nearest.as_deref(), registered));
            }
            Self::NotAName { .. } => {
                return Some(format!("1 to {NAME_CHARS_MAX} characters of a-z 0-9 . _ - beginning with a letter or digit"));
            }
            Self::NotATopic { .. } => {
                return Some(format!(
                    "1 to {TOPIC_CHARS_MAX} characters of A-Z a-z 0-9 . _ - but not \".\" or \"..\", and no topic of \
                     the broker's own"
                ));
            }
            Self::PropertyRefused { instead, .. } => instead,
            fixed => fixed.hint_fixed()?,
        };
        Some(fixed.to_owned())
    }

    fn hint_fixed(&self) -> Option<&'static str> {
        match self {
            Self::NoDocument => Some("begin with `pipeline: <name>`"),
            Self::SecondDocument => Some("one file is one pipeline; put the other into a file of its own"),
            Self::Syntax { .. } => Some("inside { } and [ ] a reference needs quotes: \"${NAME}\"; indent with blanks, not tabs"),
            Self::AnchorUsed => Some("write the value out; quote it if it is meant to begin with & or *"),
            Self::TagUsed => Some("quote the value if it is meant to begin with !"),
            Self::ReferenceOpen | Self::ReferenceMalformed => Some("write $${ for a literal ${"),
            Self::VariableUnset { .. } => Some("set it where the service is started, or write $${ for a literal ${"),
            Self::SecretFileRelative { .. } => Some("write the whole path, as in ${file:/run/secrets/password}"),
            Self::Empty => Some("write a value; a key that may be left out has a default"),
            Self::NotInteger { .. } => Some("digits only, without quotes"),
            Self::NotDuration { .. } => Some("a whole number and a unit: 100ms, 5s, 5m or 1h"),
            Self::NotSize { .. } => Some("a whole number of bytes, or with a unit: 64KiB, 16MiB or 1GiB"),
            Self::SeparatorInName { .. } => Some(
                "':' separates pipeline, instance and worker in the transactional id: with it in a name two ids could \
                 be the same, and the ACL prefix of one pipeline could cover another",
            ),
            Self::NotAPointer { .. } => Some("it begins with '/', as in /order_id; ~0 stands for '~', ~1 for '/'"),
            Self::NotAnAddress { .. } => Some("an IP address and a port, as in 127.0.0.1:9464 or 0.0.0.0:9464"),
            Self::NumberNotJson { .. } => Some("quote it, so that it is handed on as text"),
            Self::NoInput => Some("add one: `- { topic: <topic> }`"),
            Self::NoStep => Some("add one: `- { id: clean, process: <processor> }`"),
            Self::StepTooMany { .. } => Some("join the transforms in one processor, or use one pipeline for each"),
            Self::OperatorUnavailable { .. } => Some("for now a step is `process: <processor>`"),
            Self::Loop { .. } => Some("write to another topic"),
            Self::DuplicateInput { .. } => Some("remove one of the two"),
            Self::DeadLettersInOutput { .. } => {
                Some("a dead letter is the source's bytes: readers of the output could not decode it; use another topic")
            }
            Self::NoDefaultOutput => Some("what a processor returns without naming an output goes to \"default\""),
            Self::KeyOfBytes => Some("remove `key`: the input's key is kept unless the processor sets one"),
            Self::SessionOfBroker { .. } => Some("remove timeouts.session, or use `group: { protocol: classic }`"),
            Self::TwoClusters { .. } => Some("outputs and offsets share one transaction, hence one cluster: write it without the prefix"),
            _ => None,
        }
    }
}

fn choices(label: &str, nearest: Option<&str>, all: &[String]) -> String {
    let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}? {label}: {all}"),
        None => format!("{label}: {all}"),
    }
}
