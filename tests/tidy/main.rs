//! House rules that no compiler knows. Each failure lists every place at once.

mod arrows;
mod layout;
mod source;

use std::path::{Path, PathBuf};

/// Returns the repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}

/// Returns the paths of all files below a folder, relative to the root and sorted; what builds leave behind is passed over.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("read a directory").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else {
                found.push(path.strip_prefix(root()).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Returns path and text of every Rust file.
fn rust_files() -> Vec<(PathBuf, String)> {
    let folders = ["src", "processors", "tests", "deploy"];
    let all = folders.into_iter().flat_map(files).filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    all.map(|path| (path.clone(), read(&path))).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn expect_none(rule: &str, places: &[String]) {
    assert!(places.is_empty(), "{rule}:\n  {}", places.join("\n  "));
}
