//! What stands in Rust files.

use crate::{expect_none, rust_files};

/// Returns the lines of code with these words, outside of comments and texts.
fn lines_with(is_wanted: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut places = Vec::new();
    for (path, text) in rust_files() {
        for (line, number) in text.lines().zip(1..) {
            let code = code_of(line);
            if is_wanted(&path.to_string_lossy(), &code) {
                places.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    places
}

/// Returns a line without its comment and without what stands in quotes. Good enough for lines in the house's format.
fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut is_text = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if is_text => drop(letters.next()),
            '"' => is_text = !is_text,
            '/' if !is_text && letters.peek() == Some(&'/') => break,
            _ if !is_text => code.push(letter),
            _ => {}
        }
    }
    code
}

/// Whether the code has this word, whole.
fn has_word(code: &str, word: &str) -> bool {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|found| found == word)
}

#[test]
fn only_the_kafka_crate_has_unsafe_code() {
    // Benchmark peers are other programs, kept close to their origin; the raw loop is bare C calls by its nature.
    let exempt = |path: &str| path.starts_with("src/kafka/") || path.starts_with("tests/bench/peers/");
    let places = lines_with(|path, code| !exempt(path) && has_word(code, "unsafe"));
    expect_none("unsafe code outside of src/kafka", &places);
}

#[test]
fn nothing_is_left_to_do_in_code() {
    let unfinished = ["todo!", "unimplemented!", "dbg!"];
    let places = lines_with(|_, code| unfinished.iter().any(|word| code.contains(word)));
    expect_none("unfinished code", &places);
}

#[test]
fn no_test_is_ignored() {
    let places = lines_with(|_, code| code.contains("#[ignore"));
    expect_none("a test that nobody runs", &places);
}

#[test]
fn lints_are_silenced_with_a_reason() {
    let is_attribute = |code: &str| ["#[allow(", "#![allow(", "#[expect(", "#![expect("].iter().any(|start| code.trim_start().starts_with(start));
    let mut places = Vec::new();
    for (path, text) in rust_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_attribute(line)) {
            // An attribute may go over a few lines; its end closes it.
            let attribute = lines[index..].iter().take(6).scan(false, |is_over, line| {
                let part = (!*is_over).then_some(*line);
                *is_over |= line.trim_end().ends_with(")]");
                part
            });
            if !attribute.collect::<String>().contains("reason") {
                places.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
            }
        }
    }
    expect_none("a lint silenced without a reason", &places);
}

#[test]
fn comments_and_texts_are_not_code() {
    assert_eq!(code_of("    call(\"unsafe \\\" dbg!(\", x); // todo!"), "    call(, x); ");
    assert!(has_word("unsafe { x }", "unsafe") && !has_word("unsafe_code", "unsafe"));
}
