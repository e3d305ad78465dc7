//! Values that are never printed.

use std::fmt;

/// What is printed in place of a secret.
pub(super) const REDACTED: &str = "<redacted>";

/// Parts of a name that tell that its value is a secret, in lower case.
///
/// Too many names redacted is a nuisance, one too few is an incident: hence substrings, not whole names.
const SECRET_NAME_PARTS: [&str; 11] =
    ["password", "passwd", "passphrase", "secret", "token", "jaas", "credential", "key.pem", "private_key", "private.key", "api_key"];

/// Returns whether a property or option of this name holds a secret, even when it is written in plain.
pub(super) fn name_is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// Whether a part of the file may be printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposure {
    Open,
    Hidden,
}

impl Exposure {
    /// Returns what holds for the value of `key` within a part of this exposure.
    pub(super) fn below(self, key: &str) -> Self {
        if name_is_secret(key) { Self::Hidden } else { self }
    }
}

/// A text that prints as `<redacted>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text itself, for the one who needs it and prints it nowhere.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// The value of one client property. It prints itself only when it is no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    /// Written in the file, under a name that does not look secret.
    Plain(String),
    /// Came from a reference (even partly), or stands under a name that looks secret.
    Secret(Secret),
}

impl Property {
    /// Returns the value itself, for the client library.
    #[must_use]
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => formatter.write_str(text),
            Self::Secret(secret) => secret.fmt(formatter),
        }
    }
}
