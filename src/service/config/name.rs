//! The character rules of names.

/// Longest name of a pipeline, an instance, a step or an output. Three of them and a number stay far below the 512
/// bytes of an owner record.
pub(super) const NAME_CHARS_MAX: usize = 100;

/// Kafka's own limit: a topic name is part of a file name on the broker.
pub(super) const TOPIC_CHARS_MAX: usize = 249;

/// Topics that the broker writes itself.
pub(super) const BROKER_TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// Returns whether `name` matches `^[a-z0-9][a-z0-9._-]{0,99}$`.
pub(super) fn is_name(name: &str) -> bool {
    is_instance_name(name) && !name.contains(|character: char| character.is_ascii_uppercase())
}

/// Returns whether `name` matches `^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`: host names may have upper case.
pub(super) fn is_instance_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.len() <= NAME_CHARS_MAX && name.bytes().all(is_name_byte)
}

/// Returns whether Kafka accepts `name` as the name of a topic.
pub(super) fn is_topic_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && name.len() <= TOPIC_CHARS_MAX && name.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}
