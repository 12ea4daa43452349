//! docs/messages.md and the code have the same messages.

use ffi_tests::place;
use regex::Regex;
use std::path::Path;

/// Letters of a piece of text that identifies a message.
const LEAST: usize = 12;

/// The sources below a directory, with literals of several lines in one.
fn sources(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).expect("sources").flatten() {
        let path = entry.path();
        // Tests have messages of their own.
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let source = std::fs::read_to_string(&path).expect("a source");
            text += source.split("#[cfg(test)]").next().unwrap_or_default();
        }
    }
    let mut joined = String::new();
    for line in text.lines().map(str::trim_start) {
        match line.strip_suffix('\\') {
            Some(continued) => joined += continued,
            None => joined = joined + line + "\n",
        }
    }
    joined.replace("\\\"", "\"")
}

fn code(directories: &[&str]) -> String {
    let sources = directories
        .iter()
        .map(|it| sources(&place::workspace().join(it)));
    sources.collect()
}

/// The messages in the first cells of all tables.
fn documented(page: &str) -> Vec<String> {
    let message = Regex::new("`([^`]+)`").expect("a pattern");
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let cells: Vec<String> = cells.map(|cell| cell.replace("\\`", "'")).collect();
    let messages = cells.iter().flat_map(|cell| message.captures_iter(cell));
    messages.map(|found| found[1].to_owned()).collect()
}

/// The fixed parts of a message: without numbers, names in capitals and punctuation.
fn pieces(message: &str) -> Vec<String> {
    let placeholder =
        r#"…|(?-u:\b)[A-Z][A-Z_0-9]*(?-u:\b)|[0-9]+|\(s\)|\{[^}]*\}|\\n|[\[\]:;,()"'`=+/-]"#;
    let placeholder = Regex::new(placeholder).expect("a pattern");
    let pieces = placeholder.split(message);
    let pieces = pieces.map(|piece| piece.trim_matches([' ', '.']).to_owned());
    pieces.filter(|piece| piece.len() >= LEAST).collect()
}

/// True if the text has the piece, in one or in two parts.
fn has(text: &str, piece: &str) -> bool {
    let parts = piece.match_indices(' ').map(|(at, _)| piece.split_at(at));
    let is_there = |(first, second): (&str, &str)| {
        let [shorter, longer] = [
            first.len().min(second.trim().len()),
            first.len().max(second.trim().len()),
        ];
        shorter > 3 && longer >= LEAST && text.contains(first) && text.contains(second.trim())
    };
    text.contains(piece) || parts.into_iter().any(is_there)
}

#[test]
fn every_row_is_a_message_of_the_code() {
    let code = code(&["interpose", "ckptd"]).replace(['\'', '`'], " ");
    let documented = documented(include_str!("../../../docs/messages.md"));
    assert!(documented.len() > 150, "only {}", documented.len());
    let dead: Vec<_> = documented
        .iter()
        // Open MPI's own line, and the dynamic loader's.
        .filter(|message| !message.starts_with("Read -1") && !message.contains("GLIBC_2"))
        .filter(|message| pieces(message).iter().any(|piece| !has(&code, piece)))
        .collect();
    assert!(dead.is_empty(), "no message of the code: {dead:#?}");
}

#[test]
fn every_line_for_the_user_has_a_row() {
    let code = code(&[
        "interpose/face",
        "interpose/runtime",
        "ckptd/launch/src",
        "ckptd/pmi/src",
        "ckptd/relay/src",
    ]);
    let said = r#"(?:say!?|say\(format_args!|eprintln!|give_up\(&format!)\([ \n]*"((?:[^\n])*?)"[ \n]*[,)]"#;
    let said = Regex::new(said).expect("a pattern");
    let page = documented(include_str!("../../../docs/messages.md")).join("\n");
    let page = page.replace(['\'', '`'], " ");
    let lines: Vec<String> = said
        .captures_iter(&code)
        .map(|found| found[1].replace("understudy: ", ""))
        .collect();
    assert!(lines.len() > 50, "only {}", lines.len());
    let missing: Vec<_> = lines
        .iter()
        .filter(|line| {
            pieces(line)
                .first()
                .is_some_and(|piece| !page.contains(piece.as_str()))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "without a row in messages.md: {missing:#?}"
    );
}

#[test]
fn an_unknown_message_is_noticed() {
    let code = "no checkpoint for {:.1} s: worker {worker} has made none; its limit of size";
    assert!(has(code, "no checkpoint for"));
    assert!(has(code, "has made none its limit of size"));
    assert!(!has(code, "no checkpoint since"));
    assert!(pieces("worker A has died N times (75); see `ulimit -f`").is_empty());
    assert_eq!(
        pieces("`the job goes on` after N line(s)"),
        ["the job goes on"]
    );
}

/// Numbers of which the code has made sure that they are not 1.
const PLURALS: [&str; 9] = [
    "for {} workers, of {} available here",
    "{} workers need more memory",
    "{} nodes, ",
    "in groups of {} workers",
    "{count} processes failed.",
    "The last {LISTED} of {} checkpoints",
    "{number} jobs of this user",
    "{ranks} ranks are more than this node can have",
    "measured in {count} checkpoints",
];

/// `1 ranks` is no English; `understudy_report::count` takes both nouns.
#[test]
fn numbers_have_a_singular() {
    let nouns = "ranks|workers|spares|processes|records|checkpoints|hosts|nodes|failures|messages|\
                 pages|calls|jobs|collectives|places|marks|regions|steps|recoveries|runs";
    let plural = Regex::new(&format!(r#"\{{[^}}" ]*\}} ({nouns})(?-u:\b)"#)).expect("a pattern");
    let code = code(&[
        "ckptd/report/src",
        "ckptd/html/src",
        "ckptd/simulator/src",
        "ckptd/src/bin",
    ]);
    let lines = code.lines().filter(|line| plural.is_match(line));
    let wrong: Vec<_> = lines
        .filter(|line| !PLURALS.iter().any(|known| line.contains(known)))
        .collect();
    assert!(wrong.is_empty(), "use report::count: {wrong:#?}");
}
