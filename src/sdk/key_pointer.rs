//! Finds the key of an output inside its JSON value by a JSON pointer (RFC 6901), without building a tree.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A parsed JSON pointer. The empty pointer is refused: a key is a part of its value, not the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPointer {
    text: String,
    segments: Vec<String>,
}

/// Why a JSON pointer gave no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyPointerError {
    /// The text is not a pointer.
    #[error("a JSON pointer starts with \"/\", like /order_id; got {text:?}")]
    Syntax {
        /// The text as given.
        text: String,
    },
    /// The value has nothing there.
    #[error("the value has no {pointer}")]
    Missing {
        /// The pointer looked for.
        pointer: String,
    },
    /// The value has null, an object or an array there, which make no key.
    #[error("{pointer} is {found}, which cannot be a key")]
    NotScalar {
        /// The pointer looked for.
        pointer: String,
        /// What stands there.
        found: &'static str,
    },
    /// The value is not JSON.
    #[error("the value is not JSON")]
    NotJson(#[source] serde_json::Error),
}

impl KeyPointer {
    /// Parses a pointer such as `/order_id` or `/customer/id`; `~0` and `~1` stand for `~` and `/`.
    ///
    /// # Errors
    /// [`KeyPointerError::Syntax`] when it does not start with `/`.
    pub fn parse(text: &str) -> Result<Self, KeyPointerError> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(KeyPointerError::Syntax { text: text.to_owned() });
        };
        let segments = rest.split('/').map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect();
        Ok(Self { text: text.to_owned(), segments })
    }

    /// Returns the pointer as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Appends the key to `key`: a string's characters without quotes, a number's or boolean's JSON text.
    ///
    /// # Errors
    /// Every variant but `Syntax`; nothing is appended then.
    pub fn extract(&self, value: &[u8], key: &mut Vec<u8>) -> Result<(), KeyPointerError> {
        let mut deserializer = serde_json::Deserializer::from_slice(value);
        let found = Walk { segments: &self.segments }.deserialize(&mut deserializer).map_err(KeyPointerError::NotJson)?;
        let raw = found.ok_or_else(|| KeyPointerError::Missing { pointer: self.text.clone() })?.get();
        let not_scalar = |found| Err(KeyPointerError::NotScalar { pointer: self.text.clone(), found });
        match raw.as_bytes().first() {
            Some(b'n') => not_scalar("null"),
            Some(b'{') => not_scalar("an object"),
            Some(b'[') => not_scalar("an array"),
            Some(b'"') => {
                let text: std::borrow::Cow<'_, str> = serde_json::from_str(raw).map_err(KeyPointerError::NotJson)?;
                key.extend_from_slice(text.as_bytes());
                Ok(())
            }
            _ => {
                key.extend_from_slice(raw.as_bytes());
                Ok(())
            }
        }
    }
}

struct Walk<'p> {
    segments: &'p [String],
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.segments.is_empty() {
            return <&'de RawValue as serde::Deserialize>::deserialize(deserializer).map(Some);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if name == self.segments[0].as_str() {
                found = map.next_value_seed(Walk { segments: &self.segments[1..] })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let wanted = self.segments[0].parse::<usize>().ok();
        let (mut found, mut index) = (None, 0);
        loop {
            if Some(index) == wanted {
                match seq.next_element_seed(Walk { segments: &self.segments[1..] })? {
                    Some(value) => found = value,
                    None => return Ok(found),
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extract(pointer: &str, value: &str) -> Result<String, KeyPointerError> {
        let mut key = Vec::new();
        KeyPointer::parse(pointer).unwrap().extract(value.as_bytes(), &mut key)?;
        Ok(String::from_utf8(key).unwrap())
    }

    #[test]
    fn scalars_become_keys_as_people_write_them() {
        for (pointer, value, key) in [
            ("/id", r#"{"a":[1,{"id":9}],"id":175}"#, "175"),
            ("/id", r#"{"id":"C-\u00e9"}"#, "C-é"),
            ("/id", r#"{"\u0069d":1.50}"#, "1.50"),
            ("/a/1/id", r#"{"a":[1,{"id":true}]}"#, "true"),
            ("/a~1b", r#"{"a/b":"x"}"#, "x"),
        ] {
            assert_eq!(extract(pointer, value).unwrap(), key, "{pointer} in {value}");
        }
    }

    #[test]
    fn what_is_no_key_is_named() {
        assert!(extract("/id", r#"{"a":1}"#).unwrap_err().to_string().contains("no /id"));
        assert!(extract("/id/x", r#"{"id":"text"}"#).unwrap_err().to_string().contains("no /id/x"));
        assert!(extract("/id", r#"{"id":null}"#).unwrap_err().to_string().contains("null"));
        assert!(extract("/id", r#"{"id":{}}"#).unwrap_err().to_string().contains("an object"));
        assert!(extract("/id", "{").unwrap_err().to_string().contains("not JSON"));
        assert!(KeyPointer::parse("id").unwrap_err().to_string().contains("/order_id"));
    }
}
