//! The name of this process, and whether the group may rely on it.

use thiserror::Error;

use super::name::{NAME_CHARS_MAX, is_instance_name};

/// How the consumer group knows this process again after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Somebody gave the name, so it is unique and comes back: the group keeps the partitions for it.
    Static,
    /// The name is the host's. Two processes may share a host, so the group must not take them for one.
    Dynamic,
}

/// The name of this process within its pipeline, part of its transactional ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The name; it matches `^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`.
    pub name: String,
    /// Whether the group may rely on the name.
    pub membership: Membership,
}

/// Why a name cannot be an instance's.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InstanceError {
    /// The name would make two transactional ids alike.
    #[error(
        "instance name {name:?} from {origin} contains ':', which separates pipeline, instance and worker in the \
         transactional id"
    )]
    Separator {
        /// The name refused.
        name: String,
        /// Where the name came from.
        origin: &'static str,
    },
    /// The name breaks the character rule.
    #[error(
        "instance name {name:?} from {origin} is not 1 to {NAME_CHARS_MAX} characters of A-Z a-z 0-9 . _ - beginning \
         with a letter or digit"
    )]
    Malformed {
        /// The name refused.
        name: String,
        /// Where the name came from.
        origin: &'static str,
    },
}

/// Returns the name of this process: the flag's, else that of `TRANSOM_INSTANCE`, else the host's.
///
/// # Errors
///
/// The first of the three that is present breaks the character rule; the others are not tried. *Fatal*.
pub fn instance_name(flag: Option<&str>, env: Option<&str>, host: &str) -> Result<Instance, InstanceError> {
    let (name, origin, membership) = match (flag, env) {
        (Some(name), _) => (name, "--instance", Membership::Static),
        (None, Some(name)) => (name, "TRANSOM_INSTANCE", Membership::Static),
        (None, None) => (host, "the host name", Membership::Dynamic),
    };
    let name = name.to_owned();
    if name.contains(':') {
        Err(InstanceError::Separator { name, origin })
    } else if is_instance_name(&name) {
        Ok(Instance { name, membership })
    } else {
        Err(InstanceError::Malformed { name, origin })
    }
}

#[cfg(test)]
mod tests {
    use super::{Instance, InstanceError, Membership, instance_name};

    #[test]
    fn only_a_given_name_makes_a_static_member() {
        let cases = [
            (Some("a"), Some("b"), "a", Membership::Static),
            (None, Some("b"), "b", Membership::Static),
            (None, None, "Host-1.example", Membership::Dynamic),
        ];
        for (flag, env, name, membership) in cases {
            let expected = Instance { name: name.to_owned(), membership };
            assert_eq!(instance_name(flag, env, "Host-1.example"), Ok(expected));
        }
    }

    #[test]
    fn a_bad_name_is_refused_and_no_other_is_tried() {
        let separator = instance_name(Some("a:b"), Some("good"), "host");
        assert_eq!(separator, Err(InstanceError::Separator { name: "a:b".to_owned(), origin: "--instance" }));
        let long = "x".repeat(101);
        for name in ["", "-a", ".a", "a b", "ä", long.as_str()] {
            let malformed = InstanceError::Malformed { name: name.to_owned(), origin: "TRANSOM_INSTANCE" };
            assert_eq!(instance_name(None, Some(name), "host"), Err(malformed), "{name}");
        }
        assert!(instance_name(Some(&"x".repeat(100)), None, "host").is_ok());
    }
}
