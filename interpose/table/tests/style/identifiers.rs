//! Rules for the names of items.

use crate::words::{contains_any, words_of_name};
use crate::workspace::Source;

/// Prefixes of functions that return a bool.
const QUESTIONS: [&str; 5] = ["is_", "has_", "are_", "can_", "may_"];

/// Names that are defined outside of this project.
const FOREIGN: [&str; 1] = ["SIG_HOLD"];

/// Words that must not occur in the name of an item.
///
/// Plurals and third persons in "s" are included.
///
/// A word with a second, accepted meaning is not listed: "back" (`write_back`), "end" (of a range),
/// "find", "early", "zone", "seed", "script", "word", "turn", "place", "part".
#[rustfmt::skip]
const FORBIDDEN: &[&str] = &[
    // Verbs with several meanings, and verbs of persons.
    "again", "ask", "asked", "asking", "come", "came", "coming", "go", "goes", "going", "gone",
    "went", "hear", "heard", "hearing", "hold", "held", "holding", "know", "known", "knowing",
    "learn", "learned", "learning", "look", "looked", "looking", "raise", "raised", "raising",
    "say", "said", "saying", "settle", "settled", "settling", "stand", "standing", "stood",
    "tell", "telling", "told", "wish", "wished", "wishes",
    // Pronouns of persons.
    "everybody", "nobody", "somebody", "who", "whoever", "whom", "whose",
    // Terms that other terms have replaced.
    "aside", "attention", "estate", "extremes", "face", "fate", "habit", "heir", "holder",
    "inheritance", "inquiry", "inquiries", "legacy", "lend", "lending", "lent", "newcomer",
    "overdue", "partner", "player", "rehearsal", "rehearse", "rehearsed", "rehearsing", "renew",
    "renewal", "renewed", "renewing", "spared", "thin", "ward", "welcome",
];

/// Returns the lines that declare an item with a forbidden word in its name.
pub fn forbidden_names(source: &Source) -> Vec<usize> {
    let is_forbidden =
        |name: &str| !FOREIGN.contains(&name) && contains_any(&words_of_name(name), FORBIDDEN);
    let names = declarations(source).into_iter();
    let names = names.filter(|declaration| is_forbidden(declaration.name));
    names
        .map(|declaration| source.line_at(declaration.start))
        .collect()
}

/// Returns the lines that declare a function with a prefix of [`QUESTIONS`] but no result.
pub fn questions_without_result(source: &Source) -> Vec<usize> {
    let code = &source.parts.code;
    let declarations = declarations(source).into_iter();
    let functions = declarations.filter(|declaration| declaration.keyword == "fn");
    let questions = functions.filter(|function| {
        QUESTIONS
            .iter()
            .any(|prefix| function.name.starts_with(prefix))
    });
    let offences =
        questions.filter(|function| !has_result(&code[function.start + function.name.len()..]));
    offences
        .map(|function| source.line_at(function.start))
        .collect()
}

/// Declaration of an item.
struct Declaration<'a> {
    /// Keyword before the name, such as `fn`.
    keyword: &'a str,
    name: &'a str,
    /// Offset of the name.
    start: usize,
}

/// Finds the items that a source declares.
fn declarations(source: &Source) -> Vec<Declaration<'_>> {
    let code = source.parts.code.as_str();
    let mut found = Vec::new();
    let mut keyword = None;
    let mut end = 0;
    for range in &source.parts.names {
        let name = &code[range.clone()];
        if let Some(keyword) = keyword {
            let between = code[end..range.start].trim();
            let is_adjacent = between.is_empty() || between == "!";
            if (keyword, name) == ("static", "mut") {
                end = range.end;
                continue;
            }
            if is_adjacent && !is_keyword(name) {
                found.push(Declaration {
                    keyword,
                    name,
                    start: range.start,
                });
            }
        }
        // The type `*const T` declares nothing.
        keyword = is_keyword(name)
            .then_some(name)
            .filter(|_| !code[..range.start].ends_with('*'));
        end = range.end;
    }
    found
}

/// Returns true for keywords that precede the name of an item.
fn is_keyword(name: &str) -> bool {
    let is_of_type = matches!(name, "struct" | "enum" | "union" | "trait" | "type");
    is_of_type || matches!(name, "fn" | "const" | "static" | "mod" | "macro_rules")
}

/// Returns true if `->` follows the parameters of a function.
fn has_result(after_name: &str) -> bool {
    let (mut angles, mut parentheses) = (0, 0);
    for (offset, character) in after_name.char_indices() {
        match character {
            '<' => angles += 1,
            '>' if !after_name[..offset].ends_with('-') => angles -= 1,
            '(' => parentheses += 1,
            ')' => parentheses -= 1,
            _ => {}
        }
        if character == ')' && (angles, parentheses) == (0, 0) {
            return after_name[offset + 1..].trim_start().starts_with("->");
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{FORBIDDEN, Source, forbidden_names, questions_without_result};

    fn lines(scan: fn(&Source) -> Vec<usize>, text: &str) -> Vec<usize> {
        scan(&Source::rust("a", "a/b.rs", text.to_owned()))
    }

    #[test]
    fn forbidden_words_count_in_every_declaration() {
        for word in FORBIDDEN {
            let capitals = word.to_uppercase();
            let camel = format!("{}{}", &capitals[..1], &word[1..]);
            for text in [
                format!("\nfn a_{word}(b: u8) {{}}"),
                format!("\nstruct {camel} {{}}"),
                format!("\npub enum A{camel} {{}}"),
                format!("\nstatic mut {capitals}_A: u8 = 0;"),
                format!("\npub const {capitals}: u8 = 0;"),
                format!("\nconst fn {word}s() {{}}"),
                format!("\nmod {word};"),
                format!("\nmacro_rules! {word} {{}}"),
            ] {
                assert_eq!(lines(forbidden_names, &text), [2], "{text}");
            }
        }
    }

    #[test]
    fn other_names_do_not_count() {
        let word = FORBIDDEN[0];
        for text in [
            format!("{word}(); let {word} = a.{word};"),
            format!("// fn {word}"),
            format!("/// fn {word}\nfn a() {{}}"),
            format!("let a = \"fn {word}\";"),
            format!("a: *const {word}"),
            format!("a: &'static {word}"),
            format!("a: fn({word})"),
            format!("fn a{word}a() {{}}"),
            "const SIG_HOLD: u8 = 0;".to_owned(),
            "fn a() {}".to_owned(),
        ] {
            assert_eq!(lines(forbidden_names, &text), [0; 0], "{text}");
        }
    }

    #[test]
    fn questions_without_result_count() {
        for text in [
            "fn is_a() {",
            "fn may_a<B: C<D> + Fn() -> u8>(\n b: fn() -> u8,\n) {",
            "fn has_a(&self);",
        ] {
            assert_eq!(lines(questions_without_result, text), [1], "{text}");
        }
    }

    #[test]
    fn other_functions_do_not_count() {
        for text in [
            "fn is_a() -> bool {",
            "fn may_a<B: Fn(u8)>(b: (u8, [B; 2]))\n -> u8;",
            "fn issue() {",
        ] {
            assert_eq!(lines(questions_without_result, text), [0; 0], "{text}");
        }
    }
}
