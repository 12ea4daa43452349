//! The tests that the pages in docs/reference/promises name exist.

use std::path::Path;

/// Pages whose rows name tests; `not-covered.md` has no tables.
const PAGES: [&str; 5] = [
    include_str!("../../../docs/reference/promises/processes.md"),
    include_str!("../../../docs/reference/promises/program.md"),
    include_str!("../../../docs/reference/promises/mpi.md"),
    include_str!("../../../docs/reference/promises/launchers.md"),
    include_str!("../../../docs/reference/promises/refused.md"),
];

/// Rows of all tables, header rows included.
fn rows() -> impl Iterator<Item = &'static str> {
    let lines = PAGES.iter().flat_map(|page| page.lines());
    lines.filter(|line| line.starts_with('|'))
}

/// The last cells of rows, without the header rows.
fn tests<'a>(rows: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
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
    let is_marked = |row: &str| MARKS.iter().any(|mark| row.contains(mark));
    let is_of_ignored_test = |row: &&str| {
        let names = tests(std::iter::once(*row));
        names.iter().any(|name| is_ignored(name) == Some(true))
    };
    let wrong: Vec<&str> = rows()
        .filter(is_of_ignored_test)
        .filter(|row| !is_marked(row))
        .collect();
    assert!(
        wrong.is_empty(),
        "tests that make test leaves out: {wrong:#?}"
    );
}

#[test]
fn every_promise_names_a_test() {
    let tests = tests(rows());
    assert!(tests.len() > 300, "only {} rows", tests.len());
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
