//! The reference pages agree with the tables of settings and fault points.

mod pages;

#[test]
fn pages_are_up_to_date() {
    for page in pages::pages() {
        let stored = std::fs::read_to_string(page.file()).unwrap_or_default();
        assert!(
            stored == page.text,
            "{} is out of date; run make generate",
            page.path
        );
    }
}
