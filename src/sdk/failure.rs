//! Why a transform could not make its outputs.

use std::borrow::Cow;
use std::fmt;

/// What a failure asks of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// The record can never be processed: dead letter at once.
    Permanent,
    /// Another attempt may succeed: `dead_letters.attempts` with back-off, then dead letter.
    Transient,
}

impl FailureClass {
    /// Returns the word used in headers, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Transient => "transient",
        }
    }
}

/// A transform's refusal of one record: class, stable code, sentence.
///
/// Not a `std::error::Error` itself, so that `?` turns any error into a permanent failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Failure {
    class: FailureClass,
    code: Cow<'static, str>,
    message: String,
    exception: Cow<'static, str>,
}

impl Failure {
    /// Returns a failure that no further attempt can mend. `code` is a stable snake_case word to group by.
    pub fn permanent(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::of(FailureClass::Permanent, code.into(), message.into())
    }

    /// Returns a failure that another attempt may mend.
    pub fn transient(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::of(FailureClass::Transient, code.into(), message.into())
    }

    fn of(class: FailureClass, code: Cow<'static, str>, message: String) -> Self {
        Self { class, code, message, exception: Cow::Borrowed("transom_sdk::Failure") }
    }

    /// Returns the same failure under the name of the type that caused it, for the dead letter's exception header.
    pub fn with_exception(mut self, exception: impl Into<Cow<'static, str>>) -> Self {
        self.exception = exception.into();
        self
    }

    /// Returns whether another attempt may help.
    pub const fn class(&self) -> FailureClass {
        self.class
    }

    /// Returns the stable word to group by.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns the sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the name of the type that caused it.
    pub fn exception(&self) -> &str {
        &self.exception
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.class.as_str(), self.message)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::permanent("processor_error", message).with_exception(std::any::type_name::<E>())
    }
}
