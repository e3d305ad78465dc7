//! Which crate may see which: the table of the house's style, checked against the manifests.

use std::path::Path;

use crate::{expect_none, files, read, root};

/// A crate's folder, the crates of ours it may use, and crates of others it must never see.
struct Row {
    folder: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

const KAFKA_CLIENTS: [&str; 3] = ["rdkafka", "rdkafka-sys", "kafka-protocol"];
const EVERY_CRATE: &[&str] = &["sdk", "engine", "operators", "state", "formats", "kafka", "sinks", "runtime"];

const TABLE: [Row; 10] = [
    Row { folder: "src/sdk", may_use: &[], never: &["tokio", "axum", "clap", "granit-parser", "tracing-subscriber"] },
    Row { folder: "src/engine", may_use: &["sdk"], never: &["tokio", "axum", "clap", "granit-parser", "tracing", "rand", "libc"] },
    Row { folder: "src/operators", may_use: &["sdk"], never: &["tokio", "axum", "clap", "granit-parser"] },
    Row { folder: "src/formats", may_use: &["sdk"], never: &["clap", "granit-parser"] },
    Row { folder: "src/state", may_use: &["sdk"], never: &["tokio", "axum", "clap", "granit-parser"] },
    Row { folder: "src/sinks", may_use: &["sdk", "engine"], never: &["clap", "granit-parser"] },
    Row { folder: "src/kafka", may_use: &["sdk", "engine", "runtime"], never: &["clap", "granit-parser", "kafka-protocol"] },
    Row { folder: "src/runtime", may_use: &["sdk", "engine", "state", "formats", "operators"], never: &["clap", "granit-parser"] },
    Row { folder: "src/service", may_use: EVERY_CRATE, never: &[] },
    Row { folder: "processors", may_use: &["sdk", "service"], never: &["tokio", "clap", "granit-parser"] },
];

/// Returns the names a manifest depends on, of every kind of dependency.
fn dependencies(manifest: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_list = false;
    for line in read(manifest).lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            // [dependencies] is a list; [dependencies.name] is one.
            is_list = section.ends_with("dependencies");
            if let Some((_, name)) = section.split_once("dependencies.") {
                names.push(name.to_owned());
            }
        } else if is_list && !line.starts_with('#') {
            let name: String = line.chars().take_while(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')).collect();
            if !name.is_empty() {
                names.push(name);
            }
        }
    }
    names
}

#[test]
fn every_crate_depends_only_on_what_the_table_allows() {
    let mut forbidden = Vec::new();
    for Row { folder, may_use, never } in TABLE {
        let manifest = Path::new(folder).join("Cargo.toml");
        if !root().join(&manifest).is_file() {
            continue; // A crate is made when it has something to hold.
        }
        for name in dependencies(&manifest) {
            let is_forbidden = match name.strip_prefix("transom-") {
                Some(ours) => !may_use.contains(&ours),
                None => never.contains(&name.as_str()) || folder != "src/kafka" && KAFKA_CLIENTS.contains(&name.as_str()),
            };
            if is_forbidden {
                forbidden.push(format!("{folder} -> {name}"));
            }
        }
    }
    expect_none("arrows that the table does not have", &forbidden);
}

#[test]
fn every_crate_of_the_product_has_a_row() {
    let is_manifest = |path: &Path| path.file_name().is_some_and(|name| name == "Cargo.toml");
    let folders = ["src", "processors"].into_iter().flat_map(files).filter(|path| is_manifest(path));
    let without = folders.filter(|path| TABLE.iter().all(|row| Path::new(row.folder).join("Cargo.toml") != *path));
    expect_none("crates without a row in the table", &without.map(|path| path.display().to_string()).collect::<Vec<_>>());
}

// The suites see the product as a program and its topics as bytes: else a mistake could judge itself.
#[test]
fn harness_and_suites_link_nothing_of_the_product() {
    assert_eq!(
        dependencies(Path::new("tests/Cargo.toml")).iter().filter(|name| name.starts_with("transom-")).collect::<Vec<_>>(),
        ["transom-harness"]
    );
    let harness = dependencies(Path::new("tests/harness/Cargo.toml"));
    assert!(harness.iter().all(|name| !name.starts_with("transom-") && !name.starts_with("rdkafka")), "{harness:?}");
}

#[test]
fn processors_see_the_service_only_in_their_main() {
    let sources = files("processors").into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let others = sources.filter(|path| path != Path::new("processors/main.rs") && read(path).contains("transom_service"));
    expect_none("processors that see the service", &others.map(|path| path.display().to_string()).collect::<Vec<_>>());
}
