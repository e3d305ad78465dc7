//! YAML text as a tree of nodes that know where they stand.
//!
//! Never decides what a key means. What YAML offers beyond plain data (anchors, tags, several documents) is refused here:
//! a pipeline file is read by people during an incident, and each of these hides where a value comes from.

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span};

use super::mistake::Mistake;
use super::problem::Report;

/// Deeper than any file written by hand; bounds the recursion over the tree.
const NESTING_MAX: usize = 64;

/// A position in the file; both numbers count from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Place {
    /// The beginning of the file: the place of mistakes that concern the file as a whole.
    pub const START: Place = Place { line: 1, column: 1 };
}

/// A value with its position. Nothing here is `Debug`: the tree holds secrets.
pub(super) struct Node {
    pub(super) place: Place,
    /// The last line that the value touches, inclusive.
    pub(super) line_last: usize,
    pub(super) content: Content,
}

pub(super) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    // A second entry of one key is reported but kept, so that it is known which lines it stands on.
    Mapping(Vec<Entry>),
}

pub(super) struct Scalar {
    pub(super) text: String,
    /// Written without quotes, so that it may be a number, a boolean or null.
    pub(super) plain: bool,
    /// Came, even partly, from a reference; written by `reference`.
    pub(super) referenced: bool,
    /// Reported already, so that nobody may complain about its text.
    pub(super) broken: bool,
}

pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_place: Place,
    pub(super) value: Node,
}

/// Returns the path of `key` below `parent`, as problems show it.
pub(super) fn path_of(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

/// Returns the tree of the one document in `text`, or `None` if there is none; the reason is in the report.
pub(super) fn build(text: &str, report: &mut Report) -> Option<Node> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    // Otherwise the error would show the name, which may be a password that begins with '*'.
    options.emit_unresolved_aliases = true;
    options.flow_nesting_limit = NESTING_MAX;
    options.block_nesting_limit = NESTING_MAX;
    let mut builder = Builder { parser: Parser::new_from_str_with_options(text, options), report };
    match builder.document() {
        Ok(root) => root,
        Err(scan) => {
            let mark = scan.marker();
            let place = Place { line: mark.line(), column: mark.col() + 1 };
            builder.report.add(place, "", Mistake::Syntax { scan });
            None
        }
    }
}

struct Builder<'text, 'report> {
    parser: Parser<'text, granit_parser::StrInput<'text>>,
    report: &'report mut Report,
}

impl<'text> Builder<'text, '_> {
    fn document(&mut self) -> Result<Option<Node>, ScanError> {
        let mut root = None;
        while let Some(next) = self.parser.next() {
            let (event, span) = next?;
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    self.report.add(place(&span), "", Mistake::SecondDocument);
                    return Ok(root);
                }
                Event::DocumentStart(..) => {}
                event => root = self.node(event, span, "")?,
            }
        }
        if root.is_none() {
            self.report.add(Place::START, "", Mistake::NoDocument);
        }
        Ok(root)
    }

    /// Returns the node that begins with `event`, or `None` if the event ends a collection.
    fn node(&mut self, event: Event<'text>, span: Span, path: &str) -> Result<Option<Node>, ScanError> {
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor != 0 {
            self.report.add(place(&span), path, Mistake::AnchorUsed);
        }
        if tag {
            self.report.add(place(&span), path, Mistake::TagUsed);
        }
        let (content, line_last) = match event {
            Event::Scalar(text, style, ..) => {
                let plain = style == ScalarStyle::Plain;
                let scalar = Scalar { text: text.into_owned(), plain, referenced: false, broken: false };
                (Content::Scalar(scalar), span.end.line())
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.report.add(place(&span), path, Mistake::AnchorUsed);
                let scalar = Scalar { text: String::new(), plain: true, referenced: false, broken: true };
                (Content::Scalar(scalar), span.end.line())
            }
            Event::SequenceStart(..) => self.list(path)?,
            Event::MappingStart(..) => self.mapping(path)?,
            _ => return Ok(None),
        };
        Ok(Some(Node { place: place(&span), line_last, content }))
    }

    fn list(&mut self, path: &str) -> Result<(Content, usize), ScanError> {
        let mut items = Vec::new();
        let mut line_last = 1;
        while let Some(next) = self.parser.next() {
            let (event, span) = next?;
            line_last = span.end.line();
            let Some(item) = self.node(event, span, &format!("{path}[{}]", items.len()))? else { break };
            items.push(item);
        }
        Ok((Content::List(items), line_last))
    }

    fn mapping(&mut self, path: &str) -> Result<(Content, usize), ScanError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut line_last = 1;
        while let Some(next) = self.parser.next() {
            let (event, span) = next?;
            line_last = span.end.line();
            let Some(key) = self.node(event, span, path)? else { break };
            let key_text = match &key.content {
                Content::Scalar(scalar) => Some(scalar.text.clone()),
                Content::List(_) | Content::Mapping(_) => None,
            };
            let value_path = path_of(path, key_text.as_deref().unwrap_or("?"));
            let Some(next) = self.parser.next() else { break };
            let (event, span) = next?;
            let Some(value) = self.node(event, span, &value_path)? else { break };
            let Some(key_text) = key_text else {
                self.report.add(key.place, path, Mistake::KeyNotText);
                continue;
            };
            let key_place = key.place;
            if let Some(first) = entries.iter().find(|entry| entry.key == key_text) {
                let line_first = first.key_place.line;
                let key = key_text.clone();
                self.report.add(key_place, &value_path, Mistake::DuplicateKey { key, line_first });
            }
            entries.push(Entry { key: key_text, key_place, value });
        }
        Ok((Content::Mapping(entries), line_last))
    }
}

fn place(span: &Span) -> Place {
    Place { line: span.start.line(), column: span.start.col() + 1 }
}
