//! Table of counts by owner and rule, and its comparison with the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Number of offences by owner (crate or document) and rule; zeros are not stored.
pub type Counts = BTreeMap<(String, String), usize>;

const HEADER: &str = "\
# Offences against the rules of style, by crate or document. The test `style` compares them
# with the sources. Numbers may only fall; this lowers them:
#   STYLE_UPDATE=1 cargo test -p understudy-table --test style
# Where a crate or a document has been renamed, or code has been moved, edit the lines by hand.
";

/// Stored number that differs from the number in the sources.
#[derive(Debug, PartialEq)]
pub struct Difference {
    pub owner: String,
    pub rule: String,
    pub stored: usize,
    pub counted: usize,
}

/// Parses a table of lines "owner rule count".
pub fn parse(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [owner, rule, count] = fields[..] else {
            panic!("{line}: three fields are expected");
        };
        let count = count
            .parse()
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        let previous = counts.insert((owner.to_owned(), rule.to_owned()), count);
        assert_eq!(previous, None, "{line}: a second line for this rule");
    }
    counts
}

/// Returns the table in the form that [`parse`] reads.
pub fn format_table(counts: &Counts) -> String {
    let mut text = HEADER.to_owned();
    for ((owner, rule), count) in counts {
        writeln!(text, "{owner:22} {rule:24} {count:5}").expect("a string grows");
    }
    text
}

/// Compares both tables; a number that is not stored is zero.
pub fn compare(stored: &Counts, counted: &Counts) -> Vec<Difference> {
    let keys: BTreeSet<_> = stored.keys().chain(counted.keys()).collect();
    let differences = keys.into_iter().map(|key| Difference {
        owner: key.0.clone(),
        rule: key.1.clone(),
        stored: stored.get(key).copied().unwrap_or(0),
        counted: counted.get(key).copied().unwrap_or(0),
    });
    differences
        .filter(|difference| difference.stored != difference.counted)
        .collect()
}

/// Lowers stored numbers to the counted ones; never increases a number.
pub fn lower(stored: &Counts, counted: &Counts) -> Counts {
    let lowest = stored.iter().map(|(key, count)| {
        let counted = counted.get(key).copied().unwrap_or(0);
        (key.clone(), counted.min(*count))
    });
    lowest.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::{Difference, compare, format_table, lower, parse};

    #[test]
    fn tables_are_read_as_they_are_written() {
        let counts = parse("# a\nckptd opener 12\n\nREADME.md document-word 3\n");
        assert_eq!(counts.len(), 2);
        assert_eq!(parse(&format_table(&counts)), counts);
    }

    #[test]
    #[should_panic = "a second line"]
    fn a_rule_has_one_number() {
        parse("ckptd opener 12\nckptd opener 13\n");
    }

    #[test]
    fn higher_and_lower_numbers_are_differences() {
        let stored = parse("a opener 2\na long-line 2\na long-file 2\n");
        let counted = parse("a opener 2\na long-line 3\nb opener 1\n");
        let difference = |owner: &str, rule: &str, stored, counted| Difference {
            owner: owner.to_owned(),
            rule: rule.to_owned(),
            stored,
            counted,
        };
        let expected = [
            difference("a", "long-file", 2, 0),
            difference("a", "long-line", 2, 3),
            difference("b", "opener", 0, 1),
        ];
        assert_eq!(compare(&stored, &counted), expected);
        assert_eq!(compare(&stored, &stored), []);
    }

    #[test]
    fn numbers_are_only_lowered() {
        let stored = parse("a opener 3\na long-line 2\na long-file 2\n");
        let counted = parse("a opener 2\na long-line 3\nb opener 1\n");
        assert_eq!(
            lower(&stored, &counted),
            parse("a opener 2\na long-line 2\n")
        );
    }
}
