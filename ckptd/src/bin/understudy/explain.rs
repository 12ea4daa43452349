//! `understudy explain`: cause, remedy and effect of a message.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print_by, verdict};
use std::io::Write;
use understudy_catalogue::exit_status::EXIT_STATUSES;
use understudy_catalogue::{CATALOGUE, Message, find};

/// Print cause and remedy of messages.
///
/// Also prints the exit status of a job that a message ends, and the level of a message of the
/// log. A message ends with its identifier in brackets: `[file-descriptor-limit]`.
/// Without arguments, all identifiers are printed with their texts.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  done\n  \
    2  wrong usage\n  \
    3  no such message\n\n\
    Examples: understudy explain file-descriptor-limit\n          \
    understudy explain 'understudy: worker 2 failed ... [repeated-fault]; the job ends'")]
pub struct Arguments {
    /// Identifiers, or lines that understudy has printed.
    messages: Vec<String>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let named: Vec<&str> = self
            .messages
            .iter()
            .flat_map(|text| identifiers(text))
            .collect();
        let messages = named
            .into_iter()
            .map(message_named)
            .collect::<Result<Vec<_>, _>>()?;
        print_by(|out| match self.messages.is_empty() {
            true => CATALOGUE
                .iter()
                .try_for_each(|message| writeln!(out, "{}: {}", message.identifier, message.text)),
            false => messages
                .iter()
                .try_for_each(|message| explain(message, out)),
        })?;
        Ok(verdict(true))
    }
}

/// Returns the known identifiers in brackets, or the whole text if there are none.
fn identifiers(text: &str) -> Vec<&str> {
    let in_brackets = text
        .split('[')
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(']')?.0));
    let found: Vec<&str> = in_brackets.filter(|name| find(name).is_some()).collect();
    if found.is_empty() { vec![text] } else { found }
}

fn message_named(identifier: &str) -> Result<&'static Message, Failure> {
    find(identifier).ok_or_else(|| {
        let why = format!(
            "no message has the identifier `{identifier}`; `understudy explain` lists them"
        );
        Failure::with_status(IMPOSSIBLE, why)
    })
}

/// Prints all that the catalogue contains about a message.
fn explain(message: &Message, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}", message.identifier)?;
    let status = message.status.map(|status| status.to_string());
    let status = status.map_or_else(String::new, |status| {
        let described = EXIT_STATUSES.iter().find(|entry| entry.status == status);
        described.map_or(status.clone(), |entry| format!("{status}: {}", entry.title))
    });
    let lines = [
        ("message", message.text),
        ("cause", message.cause),
        ("remedy", message.remedy),
        ("status", &status),
        ("level", message.level.unwrap_or_default()),
    ];
    for (name, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
        writeln!(out, "  {name:<8} {text}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_taken_from_printed_lines() {
        let line = "understudy[0] warn: x [1] is {y} [valgrind]; z [musl]";
        assert_eq!(identifiers(line), ["valgrind", "musl"]);
        assert_eq!(identifiers("valgrind"), ["valgrind"]);
        assert_eq!(identifiers("no [such] thing"), ["no [such] thing"]);
    }

    #[test]
    fn messages_are_explained_by_cause_and_remedy() {
        let mut out = Vec::new();
        explain(message_named("valgrind").expect("a message"), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.starts_with("valgrind\n  message  the program runs under valgrind"));
        assert!(text.contains("\n  cause    ") && text.contains("\n  remedy   "));
        assert!(!text.contains("\n  status") && !text.contains("\n  level"));
        assert!(message_named("no-such-message").is_err());
    }

    #[test]
    fn status_and_level_are_printed_if_a_message_has_them() {
        let explained = |identifier| {
            let mut out = Vec::new();
            explain(message_named(identifier).expect("a message"), &mut out).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let status = "\n  status   75: a failure could not be recovered from\n";
        assert!(explained("failure-in-init").contains(status));
        assert!(explained("stored-replicas-unusable").contains("\n  level    warn\n"));
    }
}
