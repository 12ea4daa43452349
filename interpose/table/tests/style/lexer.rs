//! Separates comments and literals of Rust sources from code, without a parser.

use std::ops::Range;

/// A string literal and its range in the text, including quotation marks.
pub struct Literal {
    pub range: Range<usize>,
    /// True for `r"…"`, in which a line cannot be continued by `\`.
    pub is_raw: bool,
}

/// Parts of a Rust source text.
#[derive(Default)]
pub struct Parts {
    /// Text with comments, literals and lifetimes replaced by blanks, at unchanged offsets.
    pub code: String,
    /// Line comments, from `//` to the end of the line.
    pub comments: Vec<Range<usize>>,
    pub literals: Vec<Literal>,
    /// Keywords, identifiers and numbers.
    pub names: Vec<Range<usize>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Name,
    Punctuation,
    LineComment,
    BlockComment,
    String { is_raw: bool },
    Character,
    Lifetime,
}

/// Splits a source text into its parts.
pub fn split(text: &str) -> Parts {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut parts = Parts::default();
    let mut offset = 0;
    while offset < bytes.len() {
        let (kind, length) = token(&bytes[offset..]);
        let range = offset..offset + length;
        offset = range.end;
        if ![Kind::Name, Kind::Punctuation].contains(&kind) {
            for byte in code[range.clone()]
                .iter_mut()
                .filter(|byte| **byte != b'\n')
            {
                *byte = b' ';
            }
        }
        match kind {
            Kind::Name => parts.names.push(range),
            Kind::LineComment => parts.comments.push(range),
            Kind::String { is_raw } => parts.literals.push(Literal { range, is_raw }),
            _ => {}
        }
    }
    parts.code = String::from_utf8(code).expect("whole characters are replaced");
    parts
}

/// Returns the kind and the length of the first token.
fn token(bytes: &[u8]) -> (Kind, usize) {
    match bytes {
        [b'/', b'/', ..] => (Kind::LineComment, length_before(bytes, b'\n')),
        [b'/', b'*', ..] => (Kind::BlockComment, block_comment(bytes)),
        [b'"', ..] => (Kind::String { is_raw: false }, quoted(bytes)),
        [b'\'', ..] => character_or_lifetime(bytes),
        [first, ..] if is_of_name(*first) => {
            let length = bytes.iter().take_while(|byte| is_of_name(**byte)).count();
            let is_prefix = [&b"r"[..], b"br", b"cr"].contains(&&bytes[..length]);
            match raw(&bytes[length..]).filter(|_| is_prefix) {
                Some(rest) => (Kind::String { is_raw: true }, length + rest),
                None => (Kind::Name, length),
            }
        }
        _ => (Kind::Punctuation, 1),
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn length_before(bytes: &[u8], end: u8) -> usize {
    bytes
        .iter()
        .position(|byte| *byte == end)
        .unwrap_or(bytes.len())
}

/// Returns the length of a block comment; block comments nest.
fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (1, 2);
    while depth > 0 && at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

/// Returns the length of a literal in quotation marks (`"` or `'`).
fn quoted(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != bytes[0] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Returns the length of a raw literal after its prefix `r`, `br` or `cr`.
///
/// `None` if no literal follows, as in the raw identifier `r#type`.
fn raw(bytes: &[u8]) -> Option<usize> {
    let signs = bytes.iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(signs) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'#'; signs + 1];
    end[0] = b'"';
    let body = &bytes[signs + 1..];
    let length = body.windows(end.len()).position(|window| window == end);
    Some(length.map_or(bytes.len(), |length| signs + 1 + length + end.len()))
}

fn character_or_lifetime(bytes: &[u8]) -> (Kind, usize) {
    let width = match bytes.get(1) {
        Some(b'\\') => return (Kind::Character, quoted(bytes)),
        Some(first) => first.leading_ones().max(1) as usize,
        None => 1,
    };
    if bytes.get(1 + width) == Some(&b'\'') {
        return (Kind::Character, width + 2);
    }
    let name = bytes[1..].iter().take_while(|byte| is_of_name(**byte));
    (Kind::Lifetime, 1 + name.count())
}

#[cfg(test)]
mod tests {
    use super::split;

    fn assert_code(text: &str, code: &str) {
        let words: Vec<String> = split(text)
            .code
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(words.join(" "), code);
    }

    #[test]
    fn comments_are_no_code() {
        assert_code("a // b \"\n c /* d /* e */ \" f */ g", "a c g");
        let text = "a; // b\n/// c";
        let comments = split(text).comments;
        let comments: Vec<&str> = comments.into_iter().map(|range| &text[range]).collect();
        assert_eq!(comments, ["// b", "/// c"]);
    }

    #[test]
    fn literals_are_no_code() {
        assert_code(r#"a("b // \" c", 'd', '\'', '"', 'ü') e"#, "a( , , , , ) e");
        assert_code("a(r#\"b \" c\"#, b\"d\", br\"\\\") e", "a( , b , ) e");
        let raw = split("a(r\"b\", \"c\")").literals;
        assert_eq!(
            raw.iter().map(|literal| literal.is_raw).collect::<Vec<_>>(),
            [true, false]
        );
    }

    #[test]
    fn lifetimes_are_no_literals() {
        assert_code(
            "fn a<'b>(c: &'static str, r#type: &'b u8) {}",
            "fn a< >(c: & str, r#type: & u8) {}",
        );
    }

    #[test]
    fn offsets_are_unchanged() {
        let text = "let a = \"ü\n\"; // b\nlet c = 1;";
        let code = split(text).code;
        assert_eq!(code.len(), text.len());
        assert_eq!(code.find("let c"), text.find("let c"));
        assert_eq!(code.lines().count(), 3);
    }
}
