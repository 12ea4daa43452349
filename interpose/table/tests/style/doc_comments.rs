//! Rules for the beginning of doc comments.

use crate::workspace::Source;

/// Words that must not begin a paragraph of a doc comment.
///
/// A verb or a noun is more precise.
const OPENERS: [&str; 31] = [
    "What",
    "Whatever",
    "Whether",
    "How",
    "However",
    "Where",
    "Wherever",
    "Who",
    "Whom",
    "Whose",
    "Whoever",
    "Which",
    "Whichever",
    "When",
    "Whenever",
    "Why",
    "If",
    "So",
    "Of",
    "Nobody",
    "Somebody",
    "Everybody",
    "One",
    "Here",
    "In",
    "As",
    "By",
    "Not",
    "Some",
    "And",
    "But",
];

/// Pronouns and articles that refer to a noun of an earlier sentence.
const PRONOUNS: [&str; 10] = [
    "It", "Its", "They", "Them", "Their", "That", "Those", "These", "There", "The same",
];

/// Verbs after "this", which is then a pronoun; before a noun "this" is allowed.
const VERBS_AFTER_THIS: [&str; 16] = [
    "is", "was", "are", "were", "has", "had", "does", "can", "may", "must", "will", "would",
    "should", "needs", "makes", "takes",
];

/// Maximum number of words of a first sentence.
const MAX_WORDS: usize = 15;

/// Words with a full stop that does not end the sentence.
const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", "cf.", "vs.", "sec.", "p."];

/// Consecutive lines of `///` or of `//!`.
struct DocComment<'a> {
    /// Number of the first line.
    line: usize,
    lines: Vec<&'a str>,
}

/// Returns the lines at which paragraphs of doc comments begin with a forbidden word.
pub fn openers(source: &Source) -> Vec<usize> {
    paragraphs_of(source, |words| begins_with(words, &OPENERS))
}

/// Returns the lines at which paragraphs of doc comments begin with a pronoun.
pub fn pronoun_openers(source: &Source) -> Vec<usize> {
    paragraphs_of(source, |words| {
        begins_with(words, &PRONOUNS) || is_this_a_pronoun(words)
    })
}

/// Returns the lines of doc comments with a first sentence that is too long.
pub fn long_sentences(source: &Source) -> Vec<usize> {
    lines_of(source, |comment| {
        words_of_sentence(&comment.lines) > MAX_WORDS
    })
}

fn lines_of(source: &Source, is_offence: impl Fn(&DocComment) -> bool) -> Vec<usize> {
    let comments = doc_comments(source).into_iter();
    comments
        .filter(is_offence)
        .map(|comment| comment.line)
        .collect()
}

/// Returns the lines at which paragraphs begin whose first words are an offence.
fn paragraphs_of(source: &Source, is_offence: impl Fn(&[String; 2]) -> bool) -> Vec<usize> {
    let mut found = Vec::new();
    for comment in doc_comments(source) {
        let previous_lines = std::iter::once("").chain(comment.lines.iter().copied());
        for ((line, text), previous) in (comment.line..).zip(&comment.lines).zip(previous_lines) {
            if previous.is_empty() && is_offence(&first_words(text)) {
                found.push(line);
            }
        }
    }
    found
}

fn doc_comments(source: &Source) -> Vec<DocComment<'_>> {
    let mut found: Vec<DocComment> = Vec::new();
    let mut previous = (0, "");
    for range in &source.parts.comments {
        let comment = &source.text[range.clone()];
        let is_doc = !comment.starts_with("////");
        let Some(marker) = ["///", "//!"]
            .into_iter()
            .find(|marker| is_doc && comment.starts_with(marker))
        else {
            continue;
        };
        let line = source.line_at(range.start);
        let text = comment[marker.len()..].trim();
        match found.last_mut() {
            Some(comment) if previous == (line - 1, marker) => comment.lines.push(text),
            _ => found.push(DocComment {
                line,
                lines: vec![text],
            }),
        }
        previous = (line, marker);
    }
    found
}

/// Returns the first two words without punctuation; code is not a word.
fn first_words(line: &str) -> [String; 2] {
    let mut words = line.split_whitespace().map(|word| {
        let is_punctuation =
            |character: char| !character.is_alphanumeric() && !"`[".contains(character);
        word.trim_matches(is_punctuation).to_lowercase()
    });
    [(); 2].map(|()| words.next().unwrap_or_default())
}

fn begins_with([first, second]: &[String; 2], list: &[&str]) -> bool {
    let pair = format!("{first} {second}");
    list.iter()
        .any(|item| [first, &pair].contains(&&item.to_lowercase()))
}

fn is_this_a_pronoun([first, second]: &[String; 2]) -> bool {
    first == "this" && VERBS_AFTER_THIS.contains(&second.as_str())
}

/// Returns the number of words of the first sentence.
///
/// A sentence ends with its paragraph at the latest.
fn words_of_sentence(lines: &[&str]) -> usize {
    let is_text = |line: &&&str| !line.is_empty() && !line.starts_with(['-', '*', '#', '|']);
    let paragraph: Vec<&str> = lines.iter().take_while(is_text).copied().collect();
    let text = without_code(&paragraph.join(" "));
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut nexts = words.iter().skip(1).map(Some).chain([None]);
    let is_end = |word: &&str| {
        let next = nexts.next().flatten();
        ends_sentence(word) && next.is_none_or(|next| !next.starts_with(char::is_lowercase))
    };
    let length = words
        .iter()
        .position(is_end)
        .map_or(words.len(), |last| last + 1);
    words[..length]
        .iter()
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

fn ends_sentence(word: &str) -> bool {
    let is_abbreviation = ABBREVIATIONS
        .iter()
        .any(|abbreviation| word.eq_ignore_ascii_case(abbreviation));
    let word = word.trim_end_matches([')', '"', '*', '_']);
    word.ends_with(['.', '!', '?']) && !is_abbreviation
}

/// Replaces each piece of code between backquotes by one word, including targets of links.
fn without_code(text: &str) -> String {
    let mut words = String::new();
    for (number, piece) in text.split('`').enumerate() {
        let is_code = number % 2 == 1;
        let after_link = piece
            .strip_prefix("](")
            .and_then(|rest| rest.split_once(')'));
        words.push_str(match after_link {
            _ if is_code => "Code",
            Some((_, rest)) => rest,
            None => piece,
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Source, long_sentences, openers, pronoun_openers, words_of_sentence};

    fn lines(scan: fn(&Source) -> Vec<usize>, text: &str) -> Vec<usize> {
        scan(&Source::rust("a", "a/b.rs", text.to_owned()))
    }

    #[test]
    fn forbidden_openers_count() {
        assert_eq!(
            lines(openers, "//! What is\n\n/// Sends\n/// What is\nfn a() {}"),
            [1]
        );
        assert_eq!(
            lines(
                openers,
                "struct A {\n    /// Whether, in short\n    b: u8,\n}"
            ),
            [2]
        );
        assert_eq!(
            lines(openers, "/// Whose\nfn a() {}\n/// *Why*\nfn b() {}"),
            [1, 3]
        );
    }

    #[test]
    fn openers_of_later_paragraphs_count() {
        let text = "/// Sends a.\n///\n/// If b\n/// it is c.\n///\n/// - It\nfn a() {}";
        assert_eq!(lines(openers, text), [3]);
        let text = "//! Sends.\n//!\n//! It is.";
        assert_eq!(lines(pronoun_openers, text), [3]);
    }

    #[test]
    fn other_openers_do_not_count() {
        let texts = [
            "/// In-flight buffers",
            "/// `If`",
            "/// Sends",
            "// What",
            "//// What",
            "let a = \"\n/// What\";",
            "/// Ones",
            "/// The worker",
            "///",
        ];
        for text in texts {
            assert_eq!(lines(openers, text), [0; 0], "{text}");
        }
    }

    #[test]
    fn pronouns_count() {
        for text in [
            "/// It is",
            "/// The same as",
            "/// There is",
            "/// This is",
            "//! Its end",
        ] {
            assert_eq!(lines(pronoun_openers, text), [1], "{text}");
            assert_eq!(lines(openers, text), [0; 0], "{text}");
        }
    }

    #[test]
    fn determiners_do_not_count() {
        for text in [
            "/// This process's number",
            "/// The number",
            "/// Items",
            "/// Same-node",
        ] {
            assert_eq!(lines(pronoun_openers, text), [0; 0], "{text}");
        }
    }

    #[test]
    fn long_first_sentences_count() {
        let fifteen = "a ".repeat(14) + "a";
        assert_eq!(lines(long_sentences, &format!("\n/// {fifteen} b.")), [2]);
        assert_eq!(
            lines(long_sentences, &format!("/// {fifteen}\n/// b.")),
            [1]
        );
        assert_eq!(
            lines(long_sentences, &format!("/// {fifteen}. B c.")),
            [0; 0]
        );
        assert_eq!(
            lines(long_sentences, &format!("/// {fifteen}\n///\n/// b.")),
            [0; 0]
        );
        assert_eq!(
            lines(long_sentences, &format!("/// {fifteen}\n/// - b.")),
            [0; 0]
        );
        assert_eq!(
            lines(long_sentences, &format!("/// {fifteen}\n//! b.")),
            [0; 0]
        );
        assert_eq!(lines(long_sentences, &format!("// {fifteen} b.")), [0; 0]);
    }

    #[test]
    fn words_of_a_sentence_are_counted() {
        assert_eq!(words_of_sentence(&["One (two), three – four. Five"]), 4);
        assert_eq!(
            words_of_sentence(&["A `let a = b;` of [`c`](d e f) g. H"]),
            5
        );
        assert_eq!(words_of_sentence(&["Sends, e.g. MPI. Then"]), 3);
        assert_eq!(words_of_sentence(&["MPI 4.1 or ld.so starts."]), 5);
        assert_eq!(words_of_sentence(&["# Safety"]), 0);
    }
}
