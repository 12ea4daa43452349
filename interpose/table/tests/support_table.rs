//! docs/calls.md is what the sources say.

#[path = "../examples/support-table.rs"]
mod support_table;

#[test]
fn the_list_of_calls_is_up_to_date() {
    let written = include_str!("../../../docs/calls.md");
    let expected = support_table::document();
    let different = written
        .lines()
        .zip(expected.lines())
        .find(|(written, expected)| written != expected);
    assert!(
        written == expected,
        "docs/calls.md is out of date (first difference: {different:?}); make it again:\n\
         cargo run -p understudy-table --example support-table > docs/calls.md"
    );
}
