//! The pipeline file: from YAML text to a [`Plan`] that the rest of the service can trust.
//!
//! Owns every rule about what a pipeline file may say. Never opens a connection, never starts anything, and reads
//! nothing but the pipeline file, environment variables and the secret files that it names.
//!
//! Two stages:
//!
//! 1. *Mirror*: the text becomes a tree that knows its positions (`tree`), references to variables and secret files are
//!    put in (`reference`), and each key is read and checked alone (`mirror`, by way of `section` and `scalar`).
//! 2. *Plan*: rules that look at several keys at once (`topology`, `timing`, `client`), then the resolved [`Plan`].
//!
//! Both stages write into one report and go on, so that all mistakes of a file are shown at once. A field that has been
//! reported is `None` from then on, and rules skip it: nobody complains about what follows from a mistake.
//!
//! The reference of all keys is `README.md` beside this file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

mod client;
mod free_form;
mod instance;
mod mirror;
mod mistake;
mod name;
mod nearest;
mod plan;
mod problem;
mod reference;
mod resolve;
mod scalar;
mod secret;
mod section;
mod summary;
#[cfg(test)]
mod tests;
mod timing;
mod topology;
mod tree;
mod unit;

pub use instance::{Instance, InstanceError, Membership, instance_name};
pub use mistake::{Bound, Mistake, Shown};
pub use plan::{
    Assignor, ClientProperties, Commit, DeadLetters, Format, Group, GroupProtocol, Guarantee, Http, Input, Output, Plan, ProcessorConfig, Start,
    Step, Timeouts, Tombstones, Topic,
};
pub use problem::{Problem, Problems};
pub use secret::{Property, Secret};
pub use tree::Place;

use mirror::Mirror;
use problem::{Report, Source};

/// A pipeline file is written by hand. More than this is another file given by mistake, and is not read into memory.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads the pipeline file at `path` and returns the plan that it describes.
///
/// `processors` are the registered names; `environment` looks up one variable.
///
/// # Errors
///
/// All mistakes of the file, in the order of their positions. The pipeline has not been started: *Fatal*.
pub fn load(path: &Path, processors: &[&str], environment: &dyn Fn(&str) -> Option<String>) -> Result<Plan, Problems> {
    let file_name = path.display().to_string();
    match read(path) {
        Ok(text) => parse(&file_name, &text, processors, environment),
        Err(mistake) => {
            let mut report = Report::default();
            report.add(Place::START, "", mistake);
            Err(report.into_problems(&Source::without_text(&file_name)))
        }
    }
}

/// Returns the plan that `text` describes; `file_name` is only used in the problems.
///
/// # Errors
///
/// As [`load`].
pub fn parse(file_name: &str, text: &str, processors: &[&str], environment: &dyn Fn(&str) -> Option<String>) -> Result<Plan, Problems> {
    let mut report = Report::default();
    let Some(mut root) = tree::build(text, &mut report) else {
        // The tree is incomplete, so nobody knows which lines hold secrets: none is shown.
        return Err(report.into_problems(&Source::without_text(file_name)));
    };
    let source = Source::new(file_name, text, &root);
    reference::expand(&mut root, environment, &mut report);

    let mirror = Mirror::read(&root, &mut report);
    if let Some(mirror) = &mirror {
        topology::check(mirror, processors, &mut report);
        timing::check(mirror, &mut report);
    }
    let client = mirror.as_ref().map(|mirror| client::check(mirror, &mut report));

    if !report.is_empty() {
        return Err(report.into_problems(&source));
    }
    let plan = mirror.zip(client).and_then(|(mirror, client)| resolve::plan(mirror, client));
    // A missing part without a report is our mistake, not the author's.
    Ok(plan.expect("every part of a file without problems is present"))
}

fn read(path: &Path) -> Result<String, Mistake> {
    let mut text = String::new();
    let unreadable = |source| Mistake::FileUnreadable { source };
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Mistake::FileTooLarge { bytes_max: FILE_BYTES_MAX });
    }
    Ok(text)
}
