//! Tests of the parser and of the printer of rows.

use understudy_table::{
    Direction, EXPORTS, Flag, LengthTerm, PROCEDURES, ParamKind, TableError, length_terms, parse,
    parse_procedures, table,
};

const ROW: &str = "MPI_X | Op | manual | local waits | strings | int | \
                   removed varargs | a: const int* IntArray In [n] ; n: int Int In";

fn message(result: Result<impl Sized, TableError>) -> String {
    result
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn a_row_is_read() {
    let rows = parse_procedures(&format!("# comment\n\n{ROW}\n")).expect("well-formed");
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert!(row.has(Flag::Removed) && row.has(Flag::Varargs) && !row.has(Flag::Deprecated));
    assert_eq!(row.parameters[0].c_type, "const int*");
    assert_eq!(row.parameters[0].kind, ParamKind::IntArray);
    assert_eq!(row.parameters[0].length.as_deref(), Some("n"));
    assert_eq!(row.parameters[1].direction, Direction::In);
    assert_eq!(row.real_name(), "PMPI_X");
    assert_eq!(row.to_string(), ROW);
}

#[test]
fn the_table_is_written_as_it_is_read() {
    // Twins for large counts have no rows of their own.
    let is_derived = |name: &str| {
        let twin = name
            .strip_suffix("_c")
            .and_then(|name| table().procedure(name));
        twin.is_some_and(|twin| twin.has(Flag::Large))
    };
    let procedures = table().procedures.iter();
    let rows = procedures.filter(|row| !is_derived(&row.name));
    let written: Vec<String> = rows.map(ToString::to_string).collect();
    let lines: Vec<&str> = PROCEDURES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert_eq!(written, lines);
}

#[test]
fn a_malformed_row_is_refused() {
    for (from, to, expected) in [
        ("Op", "Opp", "line 1: unknown class `Opp`"),
        ("manual", "auto", "line 1: unknown source `auto`"),
        ("local", "near", "line 1: unknown rule `near`"),
        ("removed", "gone", "line 1: unknown flag `gone`"),
        ("IntArray", "Ints", "line 1: unknown kind `Ints`"),
        ("Int In", "Int Inward", "line 1: unknown direction `Inward`"),
        (" | int", "", "line 1: 7 columns instead of 8"),
        ("[n]", "[n", "line 1: malformed parameter"),
        ("n: int", "n int", "line 1: malformed parameter"),
    ] {
        let text = ROW.replace(from, to);
        let found = message(parse_procedures(&text));
        assert!(found.starts_with(expected), "{text}: {found}");
    }
}

#[test]
fn a_name_occurs_once() {
    assert_eq!(
        message(parse_procedures(&format!("{ROW}\n{ROW}"))),
        "line 2: `MPI_X` twice"
    );
    assert_eq!(
        message(parse(ROW, "PMPI_X | function | T | refuse")),
        "line 1: `PMPI_X` twice"
    );
    assert_eq!(
        message(parse(ROW, "a | tls | B | 4 | 4\na | function | T | refuse")),
        "line 2: `a` twice"
    );
}

#[test]
fn a_malformed_export_is_refused() {
    for (row, expected) in [
        ("a", "line 1: too few columns"),
        ("a | thing | T", "line 1: unknown sort of symbol `thing`"),
        ("a | function | T", "line 1: a function row has 4 columns"),
        ("a | function | X | refuse", "line 1: `X` is none of TW"),
        ("a | function | T | drop", "line 1: unknown policy `drop`"),
        ("a | data | D | 4 | 4", "line 1: a data row has 6 columns"),
        (
            "a | data | D | 6 | 4 | -",
            "line 1: `a`: impossible size 6 or alignment 4",
        ),
        ("a | data | D | x | 4 | -", "line 1: `x` is no number"),
        (
            "a | data | D | 4 | 4 | Thing",
            "line 1: unknown handle `Thing`",
        ),
    ] {
        assert_eq!(message(parse("", row)), expected);
    }
    assert_eq!(message(parse("", EXPORTS)), "");
}

#[test]
fn lengths_are_products() {
    let word = |text: &str| LengthTerm::Word(text.to_owned());
    assert_eq!(length_terms("a*b"), Some(vec![word("a"), word("b")]));
    assert_eq!(
        length_terms("sum(a)*b"),
        Some(vec![LengthTerm::Sum("a".to_owned()), word("b")])
    );
    assert_eq!(
        length_terms("span(a,b)"),
        Some(vec![LengthTerm::Span("a".to_owned(), "b".to_owned())])
    );
    for malformed in [
        "",
        "a*",
        "a+b",
        "sum(a",
        "sum()",
        "sum(a,b)",
        "max(a)",
        "spanw(a,b)",
    ] {
        assert_eq!(length_terms(malformed), None, "{malformed}");
    }
}
