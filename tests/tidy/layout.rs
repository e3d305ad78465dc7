//! Which files and folders there are.

use std::fs;

use crate::{expect_none, files, root, rust_files};

/// The seven names.
const TOP: [&str; 7] = ["Cargo.toml", "Makefile", "README.md", "src", "processors", "tests", "deploy"];
/// What tools and law force beside them; files that begin with a dot are free.
const FORCED: [&str; 2] = ["Cargo.lock", "LICENSE"];
/// Not in the repository.
const IGNORED: [&str; 1] = ["target"];
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = ["utils", "common", "helpers", "misc", "types"];
/// A file that is longer has two subjects.
const LINES_MAX: usize = 600;

#[test]
fn the_top_level_holds_seven_names_and_what_tools_force() {
    let entries = fs::read_dir(root()).expect("read the root");
    let names: Vec<String> = entries.map(|entry| entry.expect("read the root").file_name().to_string_lossy().into_owned()).collect();
    let missing: Vec<String> = TOP.iter().filter(|name| !names.iter().any(|found| found == *name)).map(|name| (*name).to_owned()).collect();
    expect_none("missing at the top level", &missing);
    let is_known = |name: &str| name.starts_with('.') || TOP.iter().chain(&FORCED).chain(&IGNORED).any(|known| *known == name);
    let unknown: Vec<String> = names.into_iter().filter(|name| !is_known(name)).collect();
    expect_none("an eighth name at the top level", &unknown);
}

#[test]
fn every_folder_explains_itself() {
    let mut folders = Vec::new();
    for top in ["src", "processors", "tests", "deploy"] {
        folders.push(root().join(top));
        // A processor's folder is explained by its mod.rs, from which its reference page is made.
        if top != "processors" {
            let entries = fs::read_dir(root().join(top)).expect("read a folder");
            folders.extend(entries.map(|entry| entry.expect("read a folder").path()).filter(|path| path.is_dir()));
        }
    }
    folders.sort();
    let missing: Vec<String> = folders.iter().filter(|folder| !folder.join("README.md").is_file()).map(|path| path.display().to_string()).collect();
    expect_none("folders without a README.md", &missing);
}

#[test]
fn the_changelog_is_there() {
    assert!(root().join("deploy/CHANGELOG.md").is_file());
}

#[test]
fn names_say_what_is_inside() {
    let stem = |name: &std::ffi::OsStr| name.to_string_lossy().split('.').next().unwrap_or_default().to_owned();
    let all = ["src", "processors", "tests", "deploy"].into_iter().flat_map(files);
    let empty = all.filter(|path| path.iter().any(|part| EMPTY_NAMES.contains(&stem(part).as_str())));
    expect_none("names that say nothing", &empty.map(|path| path.display().to_string()).collect::<Vec<_>>());
}

#[test]
fn files_stay_under_600_lines_without_tests() {
    let mut long = Vec::new();
    for (path, text) in rust_files() {
        let is_tests = path.iter().any(|part| part == "tests.rs") || path.starts_with("src") && path.iter().any(|part| part == "tests");
        // A module of tests within a file is its last item.
        let lines = text.split_once("\n#[cfg(test)]\nmod tests {").map_or(text.as_str(), |(code, _)| code).lines().count();
        // A folder named tests inside a crate, and tests.rs, hold nothing else.
        if !is_tests && lines >= LINES_MAX {
            long.push(format!("{}: {lines} lines", path.display()));
        }
    }
    expect_none("600 lines or more", &long);
}
