//! Rules for lines and files.

use crate::workspace::Source;

/// Maximum length of a line in characters.
const MAX_COLUMNS: usize = 100;

/// Maximum length of a file of Rust source in lines.
const MAX_LINES: usize = 500;

/// Returns the lines that are too long and can be broken.
pub fn long_lines(source: &Source) -> Vec<usize> {
    let lines = source
        .text
        .lines()
        .zip(1..)
        .filter(|(text, _)| text.len() > MAX_COLUMNS);
    let long = lines.filter(|(text, line)| {
        let limit = text
            .char_indices()
            .nth(MAX_COLUMNS)
            .map(|(at, _)| source.start_of(*line) + at);
        limit.is_some_and(|limit| !text.contains("://") && !is_in_literal(source, *line, limit))
    });
    long.map(|(_, line)| line).collect()
}

/// Returns true if an offset is inside a literal that cannot be broken before it.
///
/// Raw literals cannot be broken, and other literals only at a blank before the offset.
fn is_in_literal(source: &Source, line: usize, offset: usize) -> bool {
    let literals = &source.parts.literals;
    let next = literals.partition_point(|literal| literal.range.start < offset);
    let Some(literal) = next.checked_sub(1).map(|last| &literals[last]) else {
        return false;
    };
    let start = literal.range.start.max(source.start_of(line));
    let can_be_broken = || source.text[start..offset].trim_start().contains(' ');
    offset < literal.range.end && (literal.is_raw || !can_be_broken())
}

/// Returns the first line beyond the limit of a file that is too long.
pub fn long_files(source: &Source) -> Vec<usize> {
    let lines = source.text.lines().count();
    Vec::from_iter((lines > MAX_LINES).then_some(MAX_LINES + 1))
}

/// Returns the first line of a file whose name an earlier file has.
pub fn repeated_file_names(source: &Source) -> Vec<usize> {
    Vec::from_iter(source.namesake.is_some().then_some(1))
}

#[cfg(test)]
mod tests {
    use super::{MAX_COLUMNS, MAX_LINES, Source, long_files, long_lines};

    fn lines(scan: fn(&Source) -> Vec<usize>, text: &str) -> Vec<usize> {
        scan(&Source::rust("a", "a/b.rs", text.to_owned()))
    }

    #[test]
    fn long_lines_count() {
        let long = "ü".repeat(MAX_COLUMNS - 1);
        assert_eq!(lines(long_lines, &format!("a\n{long}bc\nd")), [2]);
        assert_eq!(lines(long_lines, &format!("// {long}")), [1]);
        assert_eq!(lines(long_lines, &format!("let a = \"b {long}\";")), [1]);
        assert_eq!(lines(long_lines, &format!("a({long}, \"b\")")), [1]);
    }

    #[test]
    fn lines_that_cannot_be_broken_do_not_count() {
        let long = "ü".repeat(MAX_COLUMNS);
        assert_eq!(lines(long_lines, &format!("a\n{long}\nb")), [0; 0]);
        assert_eq!(lines(long_lines, &format!("// https://{long}")), [0; 0]);
        assert_eq!(lines(long_lines, &format!("let a = \"{long}\";")), [0; 0]);
        assert_eq!(
            lines(long_lines, &format!("let a = \"b\n    {long}\";")),
            [0; 0]
        );
        assert_eq!(
            lines(long_lines, &format!("let a = r\"b\nc {long}\";")),
            [0; 0]
        );
    }

    #[test]
    fn long_files_count() {
        assert_eq!(
            lines(long_files, &"a\n".repeat(MAX_LINES + 1)),
            [MAX_LINES + 1]
        );
        assert_eq!(lines(long_files, &"a\n".repeat(MAX_LINES)), [0; 0]);
    }
}
