//! The tests that the pages in docs/reference/promises name exist.

use ffi_tests::test_names::{self, NamedTest};

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

/// Returns the test of this name: `file::function`, in backquotes.
fn test(name: &str) -> Option<NamedTest> {
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    let (file, function) = name.split_once("::")?;
    test_names::find(file, function)
}

/// A row without a mark names a test that every run of the tests includes.
#[test]
fn rows_of_ignored_tests_are_marked() {
    const MARKS: [&str; 3] = ["*variant*", "*soak*", "*sweep*"];
    let is_marked = |row: &str| MARKS.iter().any(|mark| row.contains(mark));
    let is_of_ignored_test = |row: &&str| {
        let names = tests(std::iter::once(*row));
        names
            .iter()
            .any(|name| test(name).is_some_and(|test| test.is_ignored))
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
    let missing: Vec<&&str> = tests.iter().filter(|name| test(name).is_none()).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn a_test_that_does_not_exist_is_noticed() {
    assert!(test("`promise.rs::every_promise_names_a_test`").is_some());
    assert!(test("`promise.rs::no_promise_names_a_test`").is_none());
    assert!(test("`promise.rs::test`").is_none());
    assert!(test("promise.rs::every_promise_names_a_test").is_none());
}
