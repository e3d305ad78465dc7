//! One mapping of the file, read key by key.
//!
//! Each key that is asked for becomes known; `close` reports the others. So the known keys are those that are read, and
//! no list of them can fall behind.

use super::mistake::{Mistake, Shown};
use super::nearest::nearest;
use super::problem::Report;
use super::tree::{Content, Entry, Node, Place, Scalar, path_of};

/// Where a value stands. A default stands where its section does.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) place: Place,
    pub(super) path: String,
    pub(super) written: bool,
    /// Came, even partly, from a reference, so that no problem may show it.
    pub(super) referenced: bool,
}

impl At {
    /// The place of a list or mapping as a whole.
    pub(super) fn written(node: &Node, path: &str) -> Self {
        Self { place: node.place, path: path.to_owned(), written: true, referenced: false }
    }

    /// The place of something that is not written, within the section at `parent`.
    pub(super) fn absent(parent: &At, key: &str) -> Self {
        Self { place: parent.place, path: path_of(&parent.path, key), written: false, referenced: false }
    }

    /// Returns the line on which the value is written, or `None` for a default.
    pub(super) fn line(&self) -> Option<usize> {
        self.written.then_some(self.place.line)
    }
}

/// A value of the file, or its default.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: At,
}

impl Located<String> {
    pub(super) fn shown(&self) -> Shown {
        if self.at.referenced { Shown::redacted() } else { Shown::plain(&self.value) }
    }
}

/// `None`: missing or wrong, and reported as such.
pub(super) type Field<T> = Option<Located<T>>;

/// What it means that a key is absent.
pub(super) enum Absent<T> {
    Mistake,
    Default(T),
}

pub(super) struct Section<'tree> {
    entries: &'tree [Entry],
    at: At,
    // In the order in which they were asked for, which is the order of the reference.
    known: Vec<&'static str>,
    // Reported already: every key of it is `None`, without further complaint.
    broken: bool,
}

impl<'tree> Section<'tree> {
    /// Opens `node`, which stands at `path`, as a section.
    pub(super) fn open(node: &'tree Node, path: &str, report: &mut Report) -> Self {
        let at = At::written(node, path);
        let (entries, broken) = match &node.content {
            Content::Mapping(entries) => (entries.as_slice(), false),
            Content::Scalar(_) | Content::List(_) => {
                complain_shape(node, path, "a mapping", report);
                (&[] as &[Entry], true)
            }
        };
        Self { entries, at, known: Vec::new(), broken }
    }

    pub(super) fn at(&self) -> &At {
        &self.at
    }

    /// Returns whether the section is written in the file and is a mapping.
    pub(super) fn is_written(&self) -> bool {
        self.at.written && !self.broken
    }

    /// Returns the entry of `key`, if it is written, with its path.
    pub(super) fn entry(&mut self, key: &'static str) -> Option<(&'tree Entry, String)> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some((entry, path_of(&self.at.path, key)))
    }

    /// Reads the single value of `key`.
    pub(super) fn value<T>(
        &mut self,
        key: &'static str,
        absent: Absent<T>,
        read: impl FnOnce(&Scalar) -> Result<T, Mistake>,
        report: &mut Report,
    ) -> Field<T> {
        let Some((entry, path)) = self.entry(key) else {
            return self.absent(key, absent, report);
        };
        let scalar = scalar_of(&entry.value, &path, report)?;
        match read(scalar) {
            Ok(value) => {
                let at = At { referenced: scalar.referenced, ..At::written(&entry.value, &path) };
                Some(Located { value, at })
            }
            Err(mistake) => {
                report.add(entry.value.place, &path, mistake);
                None
            }
        }
    }

    /// Opens the section under `key`; one that is not written has no entries, so that all its keys are absent.
    pub(super) fn section(&mut self, key: &'static str, report: &mut Report) -> Section<'tree> {
        match self.entry(key) {
            Some((entry, path)) => Section::open(&entry.value, &path, report),
            None => {
                let at = At::absent(&self.at, key);
                Section { entries: &[], at, known: Vec::new(), broken: self.broken }
            }
        }
    }

    /// Reports the keys that nobody asked for.
    pub(super) fn close(self, report: &mut Report) {
        for entry in self.entries {
            if self.known.contains(&entry.key.as_str()) {
                continue;
            }
            let mistake = Mistake::UnknownKey {
                key: entry.key.clone(),
                nearest: nearest(&entry.key, self.known.iter().copied()).map(str::to_owned),
                known: self.known.iter().map(|key| (*key).to_owned()).collect(),
            };
            report.add(entry.key_place, &path_of(&self.at.path, &entry.key), mistake);
        }
    }

    fn absent<T>(&self, key: &str, absent: Absent<T>, report: &mut Report) -> Field<T> {
        if self.broken {
            return None;
        }
        let at = At::absent(&self.at, key);
        match absent {
            Absent::Default(value) => Some(Located { value, at }),
            Absent::Mistake => {
                report.add(at.place, &at.path, Mistake::Missing);
                None
            }
        }
    }
}

/// Returns the single value that `node` is, or reports that it is none.
pub(super) fn scalar_of<'tree>(node: &'tree Node, path: &str, report: &mut Report) -> Option<&'tree Scalar> {
    match &node.content {
        Content::Scalar(scalar) if scalar.broken => None,
        Content::Scalar(scalar) if !scalar.is_null() => Some(scalar),
        Content::Scalar(_) | Content::List(_) | Content::Mapping(_) => {
            complain_shape(node, path, "a single value", report);
            None
        }
    }
}

/// Returns the items of the list that `node` is, or reports that it is none.
pub(super) fn list_of<'tree>(node: &'tree Node, path: &str, report: &mut Report) -> Option<&'tree [Node]> {
    match &node.content {
        Content::List(items) => Some(items),
        Content::Scalar(_) | Content::Mapping(_) => {
            complain_shape(node, path, "a list", report);
            None
        }
    }
}

/// Returns the entries of the mapping that `node` is, or reports that it is none.
pub(super) fn mapping_of<'tree>(node: &'tree Node, path: &str, report: &mut Report) -> Option<&'tree [Entry]> {
    match &node.content {
        Content::Mapping(entries) => Some(entries),
        Content::Scalar(_) | Content::List(_) => {
            complain_shape(node, path, "a mapping", report);
            None
        }
    }
}

fn complain_shape(node: &Node, path: &str, expected: &'static str, report: &mut Report) {
    let mistake = match &node.content {
        Content::Scalar(scalar) if scalar.broken => return,
        Content::Scalar(scalar) if scalar.is_null() => Mistake::Empty,
        Content::Scalar(_) => Mistake::WrongShape { expected, found: "a single value" },
        Content::List(_) => Mistake::WrongShape { expected, found: "a list" },
        Content::Mapping(_) => Mistake::WrongShape { expected, found: "a mapping" },
    };
    report.add(node.place, path, mistake);
}
