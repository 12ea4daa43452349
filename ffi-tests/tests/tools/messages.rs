//! All messages for users are in the catalogue, and code prints each of them.
//!
//! Numbers in texts have a singular.

use ffi_tests::{paths, test_names};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;

/// Returns the sources below a directory without tests; literals of several lines are joined.
fn sources(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).expect("sources").flatten() {
        let path = entry.path();
        // Tests have their own messages.
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let source = std::fs::read_to_string(&path).expect("a source");
            text += source
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
        }
    }
    let mut joined = String::new();
    for line in text.lines().map(str::trim_start) {
        match line.strip_suffix('\\') {
            Some(continued) => joined += continued,
            None => joined = joined + line + "\n",
        }
    }
    joined.replace("\\\"", "\"")
}

fn code(directories: &[&str]) -> String {
    let sources = directories
        .iter()
        .map(|it| sources(&paths::workspace().join(it)));
    sources.collect()
}

/// Returns the names that follow a text; spaces and line ends may be between them.
fn words_after(before: &str, text: &str) -> BTreeSet<String> {
    let word = |rest: &str| {
        let rest = rest.trim_start_matches([' ', '\n']);
        let is_part = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
        rest.chars().take_while(is_part).collect::<String>()
    };
    text.split(before).skip(1).map(word).collect()
}

#[test]
fn every_message_is_printed_somewhere() {
    let code = code(&["interpose", "ckptd"]);
    let catalogue = std::fs::read_to_string(
        paths::workspace().join("ckptd/catalogue/src/generated/message.rs"),
    );
    let catalogue = catalogue.expect("the texts");
    let mut defined = words_after("pub const ", &catalogue);
    defined.append(&mut words_after("pub fn ", &catalogue));
    assert!(defined.len() > 300, "only {}", defined.len());
    let used = words_after("message::", &code);
    let unused: Vec<_> = defined.difference(&used).collect();
    assert!(unused.is_empty(), "no code prints {unused:#?}");
}

/// Number of words from which a literal counts as a sentence.
const SENTENCE: usize = 4;

/// Ends of messages: the consequence for the job.
const OUTCOMES: [&str; 3] = [
    "; the job ends",
    "; the job stops",
    "; process {} ends, to be replaced",
];

/// Functions and macros that print a message.
const PRINTERS: [&str; 6] = [
    "print_message",
    "print",
    "log::warn!",
    "log::error!",
    "eprintln!",
    "give_up",
];

/// Returns the literals of messages that are not from the catalogue.
fn own_sentences(code: &str) -> Vec<String> {
    let arguments = r#"^\((?:&?format(?:_args)?!\()?[ \n]*"((?:[^\n])*?)"[ \n]*[,)]"#;
    let arguments = Regex::new(arguments).expect("a pattern");
    let placeholder = Regex::new(r"\{[^}]*\}|understudy:").expect("a pattern");
    // One regular expression for the whole text would take seconds in a build without optimisation.
    let after = |printer: &&'static str| {
        let found = code.match_indices(*printer);
        found.map(|(at, printer)| &code[at + printer.len()..])
    };
    let calls = PRINTERS.iter().flat_map(after);
    let texts = calls.filter_map(|rest| Some(arguments.captures(rest)?[1].to_owned()));
    let words = |text: &String| {
        let cause = OUTCOMES.iter().find_map(|it| text.strip_suffix(it));
        let cause = placeholder.replace_all(cause.unwrap_or(text), "");
        cause.split_whitespace().count()
    };
    texts.filter(|text| words(text) >= SENTENCE).collect()
}

#[test]
fn lines_for_the_user_are_those_of_the_catalogue() {
    // All crates whose lines the user of a job sees; the daemon and the tools have other lines.
    let code = code(&[
        "interpose",
        "ckptd/formats",
        "ckptd/launch",
        "ckptd/messages",
        "ckptd/node",
        "ckptd/pmi",
        "ckptd/protocol",
        "ckptd/relay",
        "ckptd/settings",
        "ckptd/sockets",
        "ckptd/wire",
    ]);
    let own = own_sentences(&code);
    assert!(own.is_empty(), "not in messages.toml: {own:#?}");
    for printer in PRINTERS {
        let missed = own_sentences(&format!(
            "{printer}(\n    \"the file {{path}} is gone\",\n);"
        ));
        assert_eq!(missed, ["the file {path} is gone"], "{printer}");
        assert!(
            code.contains(&format!("{printer}(")),
            "no code calls {printer}"
        );
    }
}

#[test]
fn tests_of_messages_exist() {
    let named = understudy_table::tests_of_messages();
    let is_missing = |(_, test): &&(String, String)| {
        let (module, function) = test.rsplit_once("::").expect("a module and a function");
        test_names::find(&format!("{module}.rs"), function).is_none()
    };
    let missing: Vec<_> = named.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

/// Texts with numbers that are never 1, as the code ensures.
const PLURALS: [&str; 9] = [
    "for {} workers, of {} available here",
    "{} workers need more memory",
    "{} nodes, ",
    "in groups of {} workers",
    "{count} processes failed.",
    "The last {MAX_LISTED_CHECKPOINTS} of {} checkpoints",
    "{number} jobs of this user",
    "{ranks} ranks are more than this node can have",
    "measured in {count} checkpoints",
];

/// A number of 1 needs a singular noun; `understudy_report::count` takes both nouns.
#[test]
fn numbers_have_a_singular() {
    let nouns = "ranks|workers|spares|processes|records|checkpoints|hosts|nodes|failures|messages|\
                 pages|calls|jobs|collectives|places|marks|regions|steps|recoveries|runs";
    let plural = Regex::new(&format!(r#"\{{[^}}" ]*\}} ({nouns})(?-u:\b)"#)).expect("a pattern");
    let code = code(&[
        "ckptd/report/src",
        "ckptd/html/src",
        "ckptd/simulator/src",
        "ckptd/src/bin",
    ]);
    let lines = code.lines().filter(|line| plural.is_match(line));
    let wrong: Vec<_> = lines
        .filter(|line| !PLURALS.iter().any(|known| line.contains(known)))
        .collect();
    assert!(wrong.is_empty(), "use report::count: {wrong:#?}");
}
