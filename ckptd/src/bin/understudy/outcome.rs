//! How commands end: exit statuses, messages, and what is printed.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::ExitCode;

/// Something was found that is not as it should be: a damaged file, a job that cannot be protected
/// here.
pub const FOUND: u8 = 1;
/// Wrong usage: words, values or settings that make no sense.
pub const USAGE: u8 = 2;
/// Nothing can be said: no such directory, nothing in it.
pub const IMPOSSIBLE: u8 = 3;

/// The statuses of all commands, for the help text; a command with others says so in its own.
pub const STATUSES: &str = "Exit status:\n  \
    0  done, and nothing is wrong\n  \
    1  done, but something is wrong with what was looked at; the output says what\n  \
    2  wrong usage\n  \
    3  not done, and a message says why\n\n\
    `understudy run` has the program's status; see `understudy run --help`.";

/// What a command comes to.
pub type Outcome = Result<ExitCode, Failure>;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// A failure with a status of its own.
    pub fn with_status(status: u8, message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            status,
        }
    }

    /// What the user would be told.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Tells the user, on standard error.
    pub fn report(self) -> ExitCode {
        tell(&self.message);
        ExitCode::from(self.status)
    }
}

/// Any error of a library is a failure with the usual status.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::with_status(IMPOSSIBLE, error)
    }
}

/// A line for the user, on standard error.
pub fn tell(message: impl Display) {
    // Nobody may be listening.
    let _ = writeln!(io::stderr(), "understudy: {message}");
}

/// Writes to standard output.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    print_by(|out| out.write_all(text.as_ref()))
}

/// Lets `write` write to standard output, piece by piece.
pub fn print_by(
    write: impl FnOnce(&mut BufWriter<StdoutLock>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        // The reader (a pager, head) has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            drop(out.into_parts());
            Ok(())
        }
        Err(error) => Err(Failure::with_status(
            IMPOSSIBLE,
            format_args!("standard output: {error}. Redirect it to where there is room."),
        )),
        Ok(()) => Ok(()),
    }
}

/// Writes a value to standard output as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print_by(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// 0, or 1 if something was found to be wrong.
pub fn verdict(is_well: bool) -> ExitCode {
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FOUND)
    }
}
