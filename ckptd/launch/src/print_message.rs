//! Lines for the user on standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints `understudy: MESSAGE` as one line on standard error.
///
/// A closed or full standard error does not end this process, as `eprintln` would.
pub fn print_message(message: impl Display) {
    print_message_to(std::io::stderr(), message);
}

/// Prints a line as [`print_message`] does, on the standard error of a job.
pub(crate) fn print_message_to(mut to: impl Write, message: impl Display) {
    // The line is written at once, because other processes write to the same stream.
    let line = format!("understudy: {message}\n");
    let _ = to.write_all(line.as_bytes());
}
