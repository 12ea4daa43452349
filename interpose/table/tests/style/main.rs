//! Rules about the language of sources, messages and documents.
//!
//! Counts of offences are stored in `counts.txt`, by crate or document, and may only fall.
//! CONTRIBUTING.md describes the rules.

mod changes;
mod counts;
mod doc_comments;
mod identifiers;
mod layout;
mod lexer;
mod packages;
mod texts;
mod unknown_names;
mod unknown_parameters;
mod words;
mod workspace;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::{env, fs};

use changes::Changes;
use counts::{Counts, Difference};
use workspace::Source;

/// Table of counts, from the root of the workspace.
const TABLE: &str = "interpose/table/tests/style/counts.txt";

/// Maximum number of places that a failure lists.
const MAX_PLACES: usize = 10;

/// A rule of style.
struct Rule {
    /// Name of the rule in the table of counts.
    name: &'static str,
    /// Advice to the author.
    advice: &'static str,
    /// Returns the lines of a file that break the rule.
    scan: fn(&Source) -> Vec<usize>,
}

const fn rule(name: &'static str, scan: fn(&Source) -> Vec<usize>, advice: &'static str) -> Rule {
    Rule { name, advice, scan }
}

/// Rules for Rust files.
const RUST_RULES: [Rule; 11] = [
    rule(
        "opener",
        doc_comments::openers,
        "Begin a doc comment with a verb (\"Returns the…\") or with a noun that names the thing.",
    ),
    rule(
        "pronoun-opener",
        doc_comments::pronoun_openers,
        "Begin a doc comment with a verb or a noun; replace the pronoun by its noun.",
    ),
    rule(
        "long-first-sentence",
        doc_comments::long_sentences,
        "Write one idea in at most 15 words; details follow after an empty line.",
    ),
    rule(
        "long-line",
        layout::long_lines,
        "Break the line before column 100 (URLs and literals that cannot be broken are excepted).",
    ),
    rule(
        "question-without-result",
        identifiers::questions_without_result,
        "Return a bool and change nothing, or choose an imperative name.",
    ),
    rule(
        "repeated-file-name",
        layout::repeated_file_names,
        "Name the file after its type or protocol; no two files of a crate have the same name.",
    ),
    rule(
        "forbidden-name",
        identifiers::forbidden_names,
        "Use the term of the field; tests/style/identifiers.rs lists the forbidden words.",
    ),
    rule(
        "long-file",
        layout::long_files,
        "Split the file: 500 lines are the limit.",
    ),
    rule(
        "message-word",
        texts::messages,
        "Use the user's terms in messages; tests/style/texts.rs lists the forbidden ones.",
    ),
    rule(
        "unknown-name",
        unknown_names::unknown_names,
        "Name an item that exists; tests/style/unknown_names.rs lists names from elsewhere.",
    ),
    rule(
        "unknown-parameter",
        unknown_parameters::unknown_parameters,
        "Explain a parameter or field by its present name.",
    ),
];

/// Rules for the README and the pages in `docs`.
const DOCUMENT_RULES: [Rule; 1] = [rule(
    "document-word",
    texts::document_lines,
    "Use the user's terms in documents; tests/style/texts.rs lists the forbidden ones.",
)];

/// Line that breaks a rule.
struct Place {
    path: String,
    line: usize,
    text: String,
}

/// Lines that break rules, by owner and rule.
type Places = BTreeMap<(String, String), Vec<Place>>;

fn scan(sources: &[Source], rules: &[Rule], places: &mut Places) {
    for source in sources {
        for rule in rules {
            let key = (source.owner.clone(), rule.name.to_owned());
            for line in (rule.scan)(source) {
                places.entry(key.clone()).or_default().push(Place {
                    path: source.path.clone(),
                    line,
                    text: source.line(line).to_owned(),
                });
            }
        }
    }
}

fn count(places: &Places) -> Counts {
    let counts = places
        .iter()
        .map(|(key, places)| (key.clone(), places.len()));
    counts.collect()
}

/// Returns the report of a number that has changed, with advice.
fn describe(difference: &Difference, places: &mut Places, changes: &Changes) -> String {
    let Difference {
        owner,
        rule,
        stored,
        counted,
    } = difference;
    let mut text = format!("\n{owner}: {rule}: {counted} counted, {stored} stored. ");
    if counted < stored {
        text +=
            "Lower the stored number: STYLE_UPDATE=1 cargo test -p understudy-table --test style\n";
        return text;
    }
    let rules = RUST_RULES.iter().chain(&DOCUMENT_RULES);
    let rule_of_name = rules.filter(|candidate| candidate.name == rule);
    text.extend(rule_of_name.map(|rule| rule.advice));
    text += "\nPlaces, those in changed lines first:\n";
    let mut places = places
        .remove(&(owner.clone(), rule.clone()))
        .unwrap_or_default();
    places.sort_by_key(|place| !changes.contains(&place.path, place.line));
    for place in places.iter().take(MAX_PLACES) {
        writeln!(text, "  {}:{}: {}", place.path, place.line, place.text).expect("a string grows");
    }
    if places.len() > MAX_PLACES {
        writeln!(
            text,
            "All: STYLE_LIST='{owner} {rule}' cargo test … --test style -- --nocapture"
        )
        .expect("a string grows");
    }
    text
}

/// Prints all places of one owner and rule.
fn list(places: &Places, key: &str) {
    for ((owner, rule), places) in places {
        if key == format!("{owner} {rule}") {
            for place in places {
                println!("{}:{}: {}", place.path, place.line, place.text);
            }
        }
    }
}

#[test]
fn offences_become_fewer() {
    let mut places = Places::new();
    scan(&workspace::rust_sources(), &RUST_RULES, &mut places);
    scan(&workspace::documents(), &DOCUMENT_RULES, &mut places);
    if let Ok(key) = env::var("STYLE_LIST") {
        list(&places, &key);
    }
    let counted = count(&places);

    let path = workspace::root().join(TABLE);
    let mut stored = counts::parse(&fs::read_to_string(&path).expect("counts.txt is readable"));
    if env::var_os("STYLE_UPDATE").is_some() {
        stored = counts::lower(&stored, &counted);
        fs::write(&path, counts::format_table(&stored)).expect("counts.txt is writable");
    }
    let differences = counts::compare(&stored, &counted);
    if differences.is_empty() {
        return;
    }
    let changes = Changes::since_commit_of(TABLE);
    let texts = differences
        .iter()
        .map(|difference| describe(difference, &mut places, &changes));
    panic!("{}", texts.collect::<String>());
}

#[test]
fn a_rise_names_places_and_a_fall_does_not() {
    let text = "/// Whether b\nfn a() {}\n".repeat(MAX_PLACES + 1);
    let mut places = Places::new();
    scan(
        &[Source::rust("a", "a/b.rs", text)],
        &RUST_RULES,
        &mut places,
    );
    let counted = count(&places);
    assert_eq!(counted, counts::parse("a opener 11"));

    let [rise] = &counts::compare(&Counts::new(), &counted)[..] else {
        panic!("one rule is broken");
    };
    let changes = Changes::of_diff("+++ b/a/b.rs\n@@ -20 +21 @@\n");
    let report = describe(rise, &mut places, &changes);
    let first = report.lines().find(|line| line.contains("a/b.rs"));
    assert_eq!(first, Some("  a/b.rs:21: /// Whether b"), "{report}");
    assert_eq!(report.matches("a/b.rs:").count(), MAX_PLACES);
    assert!(report.contains("STYLE_LIST='a opener'"), "{report}");

    let [fall] = &counts::compare(&counted, &Counts::new())[..] else {
        panic!("one rule is no longer broken");
    };
    let report = describe(fall, &mut places, &changes);
    assert!(report.contains("STYLE_UPDATE=1"), "{report}");
    assert!(!report.contains("a/b.rs"), "{report}");
}
