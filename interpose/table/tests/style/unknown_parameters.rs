//! Rule for parameters and fields that comments explain.

use crate::unknown_names::identifiers;
use crate::workspace::Source;
use std::collections::BTreeSet;

/// Words after the name in an explanation.
const VERBS: [&str; 7] = [
    " is ",
    " are ",
    " has ",
    " have ",
    " contains ",
    " returns ",
    " describes ",
];

/// Returns the lines of doc comments that explain a name which the file lacks.
///
/// An example is the explanation of a parameter that was renamed.
pub fn unknown_parameters(source: &Source) -> Vec<usize> {
    let known = names(source);
    let comments = source.parts.comments.iter();
    let found = comments.filter(|range| {
        let comment = &source.text[range.start..range.end];
        comment.starts_with("///") && explained_names(comment).any(|name| !known.contains(name))
    });
    found.map(|range| source.line_at(range.start)).collect()
}

/// Returns the names in backquotes that a verb of an explanation follows.
fn explained_names(comment: &str) -> impl Iterator<Item = &str> {
    let is_name = |piece: &str| {
        piece.starts_with(|first: char| first.is_ascii_lowercase())
            && piece
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    let pieces: Vec<&str> = comment.split('`').collect();
    let pairs: Vec<(&str, &str)> = pieces.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs
        .into_iter()
        .skip(1)
        .step_by(2)
        .filter(move |(piece, rest)| {
            is_name(piece) && VERBS.iter().any(|verb| rest.starts_with(verb))
        })
        .map(|(piece, _)| piece)
}

/// Returns all identifiers of the code and all words of its literals.
fn names(source: &Source) -> BTreeSet<&str> {
    let literals = source.parts.literals.iter().map(|literal| &literal.range);
    let ranges = source.parts.names.iter().chain(literals);
    ranges
        .flat_map(|range| identifiers(&source.text[range.clone()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Source, unknown_parameters};

    fn lines_of(text: &str) -> Vec<usize> {
        unknown_parameters(&Source::rust("a", "a/file_name.rs", text.to_owned()))
    }

    #[test]
    fn a_parameter_that_does_not_exist_counts() {
        assert_eq!(lines_of("/// `b` is a number.\nfn a(c: u8) {}"), [1]);
        assert_eq!(lines_of("/// `b` is a number.\nfn a(b: u8) {}"), [0; 0]);
        assert_eq!(lines_of("/// `b` is a word.\nfn a() -> \"a b\""), [0; 0]);
        assert_eq!(lines_of("// `b` is a number.\nfn a() {}"), [0; 0]);
        assert_eq!(lines_of("/// See `b`.\nfn a() {}"), [0; 0]);
    }
}
