//! What a person meets at the command line: words, exit codes, and an answer within seconds.

mod cluster;
mod commands;
mod files;

use std::path::Path;
use std::time::Duration;

use transom_harness::instance::{Ended, run_to_end};

/// Nothing that is wrong at the start may take longer: `timeouts.start` is 30 s.
const ANSWER: Duration = Duration::from_secs(35);

#[track_caller]
fn transom(arguments: &[&str]) -> Ended {
    run_to_end(arguments, &[], ANSWER)
}

/// Runs a pipeline that must refuse to start, and returns what it said.
#[track_caller]
fn run(file: &Path) -> Ended {
    let file = file.display().to_string();
    run_to_end(&["run", &file, "--instance", "a", "--listen", "127.0.0.1:0"], &[], ANSWER)
}

/// Asserts exit code and words; the words stand on stderr.
#[track_caller]
fn expect_refusal(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, code, "{}{}", ended.stdout, ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is missing in:\n{}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}
