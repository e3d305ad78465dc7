//! Does the oracle notice? Each mistake is planted in a copy of the engine's source, and a schedule that fails is searched.
//!
//! The copy lies below the build directory and is a workspace of its own: no switch, feature or dead branch of a mistake is
//! ever compiled into the product, and none is in its source.

mod mistakes;

use crate::rules::Rules;
use crate::search::search;
use mistakes::MISTAKES;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a failing schedule is searched for.
const SEARCH_BUDGET: Duration = Duration::from_secs(20);
/// Seeds that the copy must pass with no mistake in force.
const SOUND_SEEDS: u64 = 2_000;
/// The rules of the simulated half whose absence must be noticed.
const RULES: [&str; 6] = ["produce-sequence", "every-offset", "offsets-before-commit", "stable-offsets", "every-output", "seek"];

/// Makes the copy, builds it and lets it judge itself; returns its exit code.
///
/// # Errors
/// When the copy cannot be made or built.
pub fn make_and_run() -> Result<i32, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no root")?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let copy = program.ancestors().nth(2).ok_or("no build directory")?.join("planted");
    for folder in ["src/sdk", "src/engine", "tests/simulation"] {
        copy_folder(&root.join(folder), &copy.join(folder))?;
    }
    let manifest = read(&root.join("Cargo.toml"))?;
    let (before, rest) = manifest.split_once("members = [").ok_or("the manifest has no members")?;
    let (_, after) = rest.split_once(']').ok_or("the members have no end")?;
    write(&copy.join("Cargo.toml"), &format!("{before}members = [\"src/sdk\", \"src/engine\", \"tests/simulation\"]{after}"))?;
    write(&copy.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
    plant(&copy)?;
    let status = Command::new("cargo")
        .args(["run", "--release", "--quiet", "--package", "transom-simulation", "--", "judge-planted"])
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .current_dir(&copy)
        .status();
    Ok(status.map_err(|error| format!("cargo: {error}"))?.code().unwrap_or(1))
}

fn plant(copy: &Path) -> Result<(), String> {
    for (number, mistake) in (1..).zip(&MISTAKES) {
        for edit in mistake.edits {
            let put = edit.put.replace("PLANTED", &format!("crate::planted::is({number})"));
            replace(&copy.join(edit.file), edit.find, &put).map_err(|error| format!("{}: {error}", mistake.name))?;
        }
    }
    let switch = "//! Which mistake is in force.\nuse std::cell::Cell;\nthread_local!(static MISTAKE: Cell<u16> = const { Cell::new(0) });\n\
                  /// Sets it.\npub fn set(number: u16) {\n    MISTAKE.set(number);\n}\n\
                  pub(crate) fn is(number: u16) -> bool {\n    MISTAKE.get() == number\n}\n";
    write(&copy.join("src/engine/planted.rs"), switch)?;
    replace(&copy.join("src/engine/lib.rs"), "mod batch;\n", "mod batch;\npub mod planted;\n")?;
    let search = copy.join("tests/simulation/search.rs");
    replace(&search, "const fn plant(_: &Rules) {}", "fn plant(rules: &Rules) {\n    transom_engine::planted::set(rules.planted);\n}")
}

/// Looks whether every mistake finds its place in the engine's source as it is now.
///
/// # Errors
/// The first one that does not.
pub fn check_texts() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no root")?;
    for mistake in &MISTAKES {
        for edit in mistake.edits {
            let count = read(&root.join(edit.file))?.matches(edit.find).count();
            if count != 1 {
                return Err(format!("{}: {} holds this text {count} times, not once: {}", mistake.name, edit.file, edit.find));
            }
        }
    }
    Ok(())
}

/// In the copy: judges the oracle by each mistake. Returns how many passed and failed.
pub fn judge() -> (usize, usize) {
    let sound = search(0..SOUND_SEEDS, &Rules::default(), 1, Duration::from_secs(600));
    let mut results = vec![("no mistake", sound.failures.is_empty(), describe(&sound))];
    show(&results[0]);
    let engine = (1..).zip(&MISTAKES).map(|(number, mistake)| (mistake.name, Rules { planted: number, ..Rules::default() }));
    let simulated = RULES.iter().filter_map(|name| Some((*name, Rules::without(name)?)));
    for (name, rules) in engine.chain(simulated) {
        let found = search(0..u64::MAX, &rules, 1, SEARCH_BUDGET);
        let result = (name, !found.failures.is_empty(), describe(&found));
        show(&result);
        results.push(result);
    }
    let passed = results.iter().filter(|(_, passed, _)| *passed).count();
    (passed, results.len() - passed)
}

fn describe(found: &crate::search::Search) -> String {
    let first = found.failures.first().and_then(|verdict| Some(format!("seed {}: {}", verdict.seed, verdict.anomalies.first()?)));
    let first = first.map_or_else(|| "nothing found".to_owned(), |text| text.chars().take(110).collect());
    format!("{} schedules, {:.1} s; {first}", found.schedules, found.took.as_secs_f64())
}

fn show((name, passed, text): &(&str, bool, String)) {
    println!("{} {name}: {text}", if *passed { "ok    " } else { "FAILED" });
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    for entry in fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let path: PathBuf = entry.map_err(|error| error.to_string())?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn replace(path: &Path, find: &str, put: &str) -> Result<(), String> {
    let text = read(path)?;
    match text.matches(find).count() {
        1 => write(path, &text.replacen(find, put, 1)),
        count => Err(format!("{} holds this text {count} times, not once: {find}", path.display())),
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
