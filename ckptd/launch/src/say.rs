//! Lines for the user on standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints `understudy: MESSAGE` as one line on standard error.
///
/// A closed or full standard error does not end this process, as `eprintln` would.
pub(crate) fn say(message: impl Display) {
    // The line is written at once, because other processes write to the same stream.
    let line = format!("understudy: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
