//! The tests that docs/promise.md names exist.

use std::path::Path;

/// The last cells of the rows of all tables, without the header rows.
fn tests(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|row| {
        row.trim_end_matches('|')
            .rsplit('|')
            .next()
            .unwrap_or("")
            .trim()
    });
    cells
        .filter(|cell| *cell != "test" && *cell != "---")
        .collect()
}

/// True if `name` is `file::function`, in backquotes, and there is such a test.
fn exists(name: &str) -> bool {
    is_ignored(name).is_some()
}

/// True for a test that `make test` omits; `None` if there is no such test.
fn is_ignored(name: &str) -> Option<bool> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    let (file, function) = name.split_once("::")?;
    let sources =
        ["jobs", "alone"].map(|program| std::fs::read_to_string(tests.join(program).join(file)));
    let source = sources.into_iter().find_map(Result::ok).unwrap_or_default();
    // `conformance.rs` and `programs_table.rs` make tests of a table.
    if source.contains("macro_rules!") && source.contains(&format!("\n    {function}: ")) {
        return Some(false);
    }
    let at = source.find(&format!("\nfn {function}()"))?;
    // The attributes are between the function and the preceding blank line.
    let attributes = source[..at].rsplit("\n\n").next().unwrap_or("");
    let has = |attribute: &str| attributes.lines().any(|line| line.starts_with(attribute));
    has("#[test]").then(|| has("#[ignore"))
}

/// A row without a mark names a test that every run of the tests includes.
#[test]
fn rows_of_ignored_tests_are_marked() {
    const MARKS: [&str; 3] = ["*variant*", "*soak*", "*sweep*"];
    let page = include_str!("../../../docs/promise.md");
    let is_marked = |row: &str| MARKS.iter().any(|mark| row.contains(mark));
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let wrong: Vec<&str> = rows
        .filter(|row| tests(row).iter().any(|name| is_ignored(name) == Some(true)))
        .filter(|row| !is_marked(row))
        .collect();
    assert!(
        wrong.is_empty(),
        "tests that make test leaves out: {wrong:#?}"
    );
}

#[test]
fn every_promise_names_a_test() {
    let page = include_str!("../../../docs/promise.md");
    let tests = tests(page);
    assert!(tests.len() > 30, "only {} rows", tests.len());
    let missing: Vec<&&str> = tests.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn a_test_that_does_not_exist_is_noticed() {
    assert!(exists("`promise.rs::every_promise_names_a_test`"));
    assert!(!exists("`promise.rs::no_promise_names_a_test`"));
    assert!(!exists("`promise.rs::exists`"));
    assert!(!exists("promise.rs::every_promise_names_a_test"));
}
