//! Rules for the words of documents and messages.

use crate::words::{contains_any, words_of_text};
use crate::workspace::Source;

/// Beginnings of the paths of documents for maintainers.
///
/// Documents for maintainers may use terms of the implementation.
const DESIGN: [&str; 3] = ["docs/ARCHITECTURE.md", "docs/design/", "docs/references.md"];

/// Terms that are forbidden in documents and messages.
const FORBIDDEN: &[&str] = &[
    "everybody",
    "heir",
    "newcomer",
    "nobody",
    "player",
    "rehearsal",
    "rehearse",
    "rehearsed",
    "rehearsing",
    "somebody",
    "the-layer",
    "thin-copies",
    "thin-copy",
    "whoever",
];

/// Further terms that are forbidden in messages and in documents for users.
const FORBIDDEN_FOR_USERS: &[&str] = &[
    "epoch",
    "holder",
    "initialisation-phase",
    "journal",
    "partner",
    "successor",
];

/// Further terms that are forbidden in documents for maintainers.
const FORBIDDEN_IN_DESIGN: &[&str] = &[
    "aside",
    "estate",
    "face",
    "inheritance",
    "legacy",
    "lend",
    "lent",
    "renew",
    "renewal",
    "renewed",
    "user-side",
    "ward",
];

/// Terms of the MPI standard that contain a forbidden word.
const ALLOWED: [&str; 2] = ["access epoch", "exposure epoch"];

/// Beginning of the names of understudy's environment variables.
const VARIABLE_PREFIX: &str = "UNDERSTUDY_";

/// Returns the lines of a document with a forbidden term.
///
/// Code between backquotes is excluded, in a line or in a fenced block.
pub fn document_lines(source: &Source) -> Vec<usize> {
    let is_design = DESIGN.iter().any(|path| source.path.starts_with(path));
    let forbidden_here = match is_design {
        true => FORBIDDEN_IN_DESIGN,
        false => FORBIDDEN_FOR_USERS,
    };
    let lines = source.text.lines().zip(1..);
    let mut is_code = false;
    let found = lines.filter(|(text, _)| {
        let is_fence = text.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence {
            return false;
        }
        let prose: Vec<&str> = text.split('`').step_by(2).collect();
        contains_term(&prose.join(" "), forbidden_here)
    });
    found.map(|(_, line)| line).collect()
}

/// Returns the lines at which messages with a forbidden term begin.
///
/// A literal with a blank is a message; other literals are keys or file names.
pub fn messages(source: &Source) -> Vec<usize> {
    let literals = source.parts.literals.iter().map(|literal| &literal.range);
    let found = literals.filter(|range| {
        let text = &source.text[range.start..range.end];
        text.contains(' ') && contains_term(&text.replace("\\n", " "), FORBIDDEN_FOR_USERS)
    });
    found.map(|range| source.line_at(range.start)).collect()
}

/// Returns true if a text contains a forbidden term, outside of names of environment variables.
///
/// `forbidden_here` contains the terms that are forbidden in addition to [`FORBIDDEN`].
fn contains_term(text: &str, forbidden_here: &[&str]) -> bool {
    let is_prose = |word: &&str| !word.contains(VARIABLE_PREFIX);
    let prose: Vec<&str> = text.split_whitespace().filter(is_prose).collect();
    let text = ALLOWED
        .iter()
        .fold(prose.join(" ").to_lowercase(), |text, term| {
            text.replace(term, "")
        });
    let words = words_of_text(&text);
    contains_any(&words, FORBIDDEN) || contains_any(&words, forbidden_here)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of_document(path: &str, text: &str) -> Vec<usize> {
        document_lines(&Source::document(path, path, text.to_owned()))
    }

    #[test]
    fn terms_count_in_documents() {
        for term in [FORBIDDEN, FORBIDDEN_FOR_USERS].concat() {
            let text = format!("A worker\nis the {}.", term.replace('-', " "));
            assert_eq!(lines_of_document("README.md", &text), [2], "{text}");
        }
        for term in [FORBIDDEN, FORBIDDEN_IN_DESIGN].concat() {
            for path in ["docs/ARCHITECTURE.md", "docs/design/start.md"] {
                let lines = lines_of_document(path, &format!("| {term} |"));
                assert_eq!(lines, [1], "{path}: {term}");
            }
        }
    }

    #[test]
    fn other_terms_do_not_count_in_documents() {
        let term = FORBIDDEN_FOR_USERS[0];
        for text in [
            format!("exposure {term}s"),
            format!("`a {term}`"),
            format!("(UNDERSTUDY_{})", term.to_uppercase()),
            format!("a{term}a"),
            format!("```text\n{term}\n```"),
        ] {
            assert_eq!(lines_of_document("docs/faq.md", &text), [0; 0], "{text}");
        }
        for path in ["docs/ARCHITECTURE.md", "docs/design/start.md"] {
            assert_eq!(lines_of_document(path, term), [0; 0]);
        }
        assert_eq!(
            lines_of_document("docs/faq.md", FORBIDDEN_IN_DESIGN[0]),
            [0; 0]
        );
    }

    #[test]
    fn terms_count_in_messages() {
        let lines = |text: &str| messages(&Source::rust("a", "a/b.rs", text.to_owned()));
        for term in [FORBIDDEN, FORBIDDEN_FOR_USERS].concat() {
            assert_eq!(lines(&format!("a(\n\"the {term}\")")), [2], "{term}");
            assert_eq!(lines(&format!("a(\n\"rank 1\\n{term}\")")), [2], "{term}");
            assert_eq!(
                lines(&format!("let {term} = \"a worker\"; // the {term}")),
                [0; 0]
            );
        }
        assert_eq!(lines(&format!("\"{}\"", FORBIDDEN_FOR_USERS[0])), [0; 0]);
    }
}
