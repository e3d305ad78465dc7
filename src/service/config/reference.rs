//! `${NAME}` and `${file:/path}` in the scalars of the file, `$${` for a literal `${`.
//!
//! References are put in after the YAML is parsed, so that a value can never become syntax, and once only, so that a
//! value can never become a reference.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::mistake::Mistake;
use super::problem::Report;
use super::tree::{Content, Node, Scalar, path_of};

/// Certificates with their chains are the largest secrets; more is another file given by mistake.
const SECRET_FILE_BYTES_MAX: u64 = 256 * 1024;

/// Looks up one environment variable.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Puts every reference of the tree in; a scalar whose reference cannot be resolved is reported and marked broken.
pub(super) fn expand(root: &mut Node, environment: Environment<'_>, report: &mut Report) {
    expand_node(root, "", environment, report);
}

fn expand_node(node: &mut Node, path: &str, environment: Environment<'_>, report: &mut Report) {
    match &mut node.content {
        Content::Scalar(scalar) => {
            if let Err(mistake) = expand_scalar(scalar, environment) {
                scalar.broken = true;
                report.add(node.place, path, mistake);
            }
        }
        Content::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                expand_node(item, &format!("{path}[{index}]"), environment, report);
            }
        }
        Content::Mapping(entries) => {
            for entry in entries {
                expand_node(&mut entry.value, &path_of(path, &entry.key), environment, report);
            }
        }
    }
}

fn expand_scalar(scalar: &mut Scalar, environment: Environment<'_>) -> Result<(), Mistake> {
    let mut expanded = String::new();
    let mut rest = scalar.text.as_str();
    while let Some(start) = rest.find("${") {
        let before = &rest[..start];
        let after = &rest[start + 2..];
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        // Said before anything is resolved, so that no later complaint about this scalar shows its text.
        scalar.referenced = true;
        let end = after.find('}').ok_or(Mistake::ReferenceOpen)?;
        expanded.push_str(before);
        expanded.push_str(&resolve(&after[..end], environment)?);
        rest = &after[end + 1..];
    }
    expanded.push_str(rest);
    scalar.text = expanded;
    Ok(())
}

fn resolve(reference: &str, environment: Environment<'_>) -> Result<String, Mistake> {
    if let Some(path) = reference.strip_prefix("file:") {
        return secret_file(Path::new(path));
    }
    if is_variable_name(reference) {
        return environment(reference).ok_or_else(|| Mistake::VariableUnset { name: reference.to_owned() });
    }
    Err(Mistake::ReferenceMalformed)
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn secret_file(path: &Path) -> Result<String, Mistake> {
    let owned: PathBuf = path.to_owned();
    if !path.is_absolute() {
        return Err(Mistake::SecretFileRelative { path: owned });
    }
    let mut text = read(path).map_err(|source| Mistake::SecretFileUnreadable { path: owned.clone(), source })?;
    if text.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(Mistake::SecretFileTooLarge { path: owned, bytes_max: SECRET_FILE_BYTES_MAX });
    }
    // Editors and `echo` end a file with a line break that is not part of the secret. Only one is taken away.
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(SECRET_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
}
