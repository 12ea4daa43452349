//! Lines for the user on standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints `understudy: MESSAGE` as one line on standard error.
///
/// A closed or full standard error does not end this process, as `eprintln` would.
pub(crate) fn say(message: impl Display) {
    // In one write: other processes write there, too.
    let line = format!("understudy: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
