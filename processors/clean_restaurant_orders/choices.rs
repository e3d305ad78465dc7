//! The bracket lists of a restaurant's orders: `[Fresh Tomato Salsa (Mild), [Rice, Cheese]]`.
//!
//! ```text
//! list    = "[" element *( ", " element ) "]"
//! element = list / text
//! text    = 1*( any but "," "[" "]" "(" ")" / "(" any but parentheses ")" )
//! ```
//! Within parentheses commas and brackets are text. Nothing is trimmed, so that joining the parts gives the list as it was.

use serde::Serialize;

/// Lists within lists; the restaurant's have 2. The parser recurses, and its depth must not be the sender's choice.
const DEPTH_MAX: usize = 8;

/// One choice, or a list of them.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Choice {
    /// A choice by its name.
    One(String),
    /// A list of choices.
    List(Vec<Choice>),
}

/// Where and why a text is no list.
#[derive(Debug, PartialEq, Eq)]
pub struct ChoicesError {
    /// Bytes before the fault.
    pub position: usize,
    /// What should stand there.
    pub expected: &'static str,
}

/// Parses a whole text as one list.
///
/// # Errors
/// The first place where it is none.
pub fn parse(text: &str) -> Result<Vec<Choice>, ChoicesError> {
    let mut parser = Parser { text, position: 0 };
    let list = parser.list(1)?;
    if parser.position == text.len() { Ok(list) } else { Err(parser.expected("the end of the text")) }
}

struct Parser<'t> {
    text: &'t str,
    // Invariant: at a character boundary, at most the text's length.
    position: usize,
}

impl Parser<'_> {
    fn list(&mut self, depth: usize) -> Result<Vec<Choice>, ChoicesError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("no list this deep"));
        }
        if !self.skip("[") {
            return Err(self.expected("\"[\""));
        }
        let mut choices = vec![self.element(depth)?];
        while self.skip(", ") {
            choices.push(self.element(depth)?);
        }
        if self.skip("]") { Ok(choices) } else { Err(self.expected("\", \" or \"]\"")) }
    }

    fn element(&mut self, depth: usize) -> Result<Choice, ChoicesError> {
        if self.rest().starts_with('[') { Ok(Choice::List(self.list(depth + 1)?)) } else { self.text().map(Choice::One) }
    }

    fn text(&mut self) -> Result<String, ChoicesError> {
        let start = self.position;
        loop {
            let rest = self.rest();
            let plain = rest.find([',', '[', ']', '(', ')']).unwrap_or(rest.len());
            self.position += plain;
            if !self.skip("(") {
                break;
            }
            let rest = self.rest();
            self.position += rest.find(['(', ')']).unwrap_or(rest.len());
            if !self.skip(")") {
                return Err(self.expected("\")\""));
            }
        }
        if self.position == start { Err(self.expected("a choice")) } else { Ok(self.text[start..self.position].to_owned()) }
    }

    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn skip(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.position += token.len();
        }
        found
    }

    const fn expected(&self, expected: &'static str) -> ChoicesError {
        ChoicesError { position: self.position, expected }
    }
}
