//! The catalogue of messages (texts, causes and remedies) and of exit statuses.
//!
//! `data/messages.toml` has an entry for each message. `make generate` generates from it the texts
//! in [`message`], the table [`CATALOGUE`] and the page docs/reference/messages.md. Each text
//! ends with the message's identifier in brackets, which `understudy explain` accepts.
//!
//! `data/exit_statuses.toml` is the only source of the exit statuses: of the constants in
//! [`exit_status`], of help texts, and of the page docs/reference/exit-statuses.md.

#![no_std]

/// An entry of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Words joined by hyphens, such as `file-descriptor-limit`.
    pub identifier: &'static str,
    /// Text with the names of its parameters in braces, without the identifier.
    pub text: &'static str,
    /// Reason for the message; empty if the text contains it.
    pub cause: &'static str,
    /// Action for the user; empty if none is needed.
    pub remedy: &'static str,
    /// Exit status of the job, if the message reports the reason for its end.
    pub status: Option<u8>,
    /// Level of a message of the log: `error`, `warn` or `info`.
    pub level: Option<&'static str>,
}

/// An exit status in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    /// A number, or `128 + N`.
    pub status: &'static str,
    /// Meaning in a few words.
    pub title: &'static str,
}

/// Exit statuses with which understudy ends jobs: constants, and a table in words.
pub mod exit_status {
    use super::ExitStatus;

    include!("generated/exit_status.rs");
}

/// Texts of the messages: constants, and functions of the messages' parameters.
pub mod message {
    include!("generated/message.rs");
}

mod table {
    use super::Message;

    include!("generated/table.rs");
}

pub use table::CATALOGUE;

/// Returns the message with an identifier.
pub fn find(identifier: &str) -> Option<&'static Message> {
    CATALOGUE
        .iter()
        .find(|message| message.identifier == identifier)
}
