//! Mistakes gathered with their places, and how they are shown.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use super::mistake::Mistake;
use super::secret::Exposure;
use super::tree::{Content, Node, Place};

/// A longer line is cut out of sight on a terminal, so it is not shown at all.
const LINE_CHARS_MAX: usize = 160;

/// Sections whose values are not ours to judge; none of their lines is shown.
const UNSHOWN_SECTIONS: [&str; 2] = ["kafka", "with"];

/// The mistakes found so far. Written by both stages, read once at the end.
#[derive(Default)]
pub(super) struct Report {
    found: Vec<(Place, String, Mistake)>,
}

impl Report {
    pub(super) fn add(&mut self, place: Place, path: &str, mistake: Mistake) {
        self.found.push((place, path.to_owned(), mistake));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn into_problems(mut self, source: &Source<'_>) -> Problems {
        // Stable: problems of one place stay in the order in which they were found.
        self.found.sort_by_key(|(place, ..)| *place);
        let problem = |(place, path, mistake): (Place, String, Mistake)| Problem {
            file: source.file_name.to_owned(),
            line: source.line(place).filter(|_| mistake.line_is_known()).map(str::to_owned),
            place,
            path,
            mistake,
        };
        Problems(self.found.into_iter().map(problem).collect())
    }
}

/// The text of the file, less the lines that may hold a secret.
pub(super) struct Source<'a> {
    file_name: &'a str,
    lines: Vec<&'a str>,
    lines_unshown: BTreeSet<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(file_name: &'a str, text: &'a str, root: &Node) -> Self {
        let mut lines_unshown = BTreeSet::new();
        hide(root, Exposure::Open, &mut lines_unshown);
        // YAML counts a lone carriage return as a line break, `lines` does not: the numbers would no longer agree.
        let counted_alike = !text.replace("\r\n", "\n").contains('\r');
        let lines = if counted_alike { text.lines().collect() } else { Vec::new() };
        Self { file_name, lines, lines_unshown }
    }

    /// A source of which no line is ever shown.
    pub(super) fn without_text(file_name: &'a str) -> Self {
        Self { file_name, lines: Vec::new(), lines_unshown: BTreeSet::new() }
    }

    fn line(&self, place: Place) -> Option<&'a str> {
        let line = self.lines.get(place.line.checked_sub(1)?)?;
        let shown = !self.lines_unshown.contains(&place.line) && line.chars().count() <= LINE_CHARS_MAX;
        shown.then_some(*line)
    }
}

fn hide(node: &Node, exposure: Exposure, lines: &mut BTreeSet<usize>) {
    match &node.content {
        Content::Scalar(_) if exposure == Exposure::Hidden => lines.extend(node.place.line..=node.line_last),
        Content::Scalar(_) => {}
        Content::List(items) => items.iter().for_each(|item| hide(item, exposure, lines)),
        Content::Mapping(entries) => {
            for entry in entries {
                let key = entry.key.as_str();
                let exposure = if UNSHOWN_SECTIONS.contains(&key) { Exposure::Hidden } else { exposure.below(key) };
                hide(&entry.value, exposure, lines);
            }
        }
    }
}

/// One mistake and where it stands.
#[derive(Debug)]
pub struct Problem {
    file: String,
    place: Place,
    path: String,
    mistake: Mistake,
    // The line of the file, unless it may hold a secret.
    line: Option<String>,
}

impl Problem {
    /// Returns the position in the file.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Returns the path of the key concerned, such as `steps[0].process`; empty for the file as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn mistake(&self) -> &Mistake {
        &self.mistake
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        write!(formatter, "{}:{line}:{column}: ", self.file)?;
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        write!(formatter, "{}", self.mistake)?;
        let mut cause = self.mistake.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        if let Some(text) = &self.line {
            // Tabs become one blank each, so that the caret stays under its character.
            let text = text.replace('\t', " ");
            let margin = line.to_string().len();
            write!(formatter, "\n  {line} | {text}\n  {:margin$} | {:>column$}", "", "^")?;
        }
        if let Some(hint) = self.mistake.hint() {
            write!(formatter, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// All mistakes of one pipeline file, in the order of their places; never empty.
#[derive(Debug)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Returns the problems one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{problem}")?;
        }
        Ok(())
    }
}

// Each problem shows its own causes, since there is no single one to return here.
impl Error for Problems {}
