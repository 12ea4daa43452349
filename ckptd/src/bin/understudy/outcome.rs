//! Exit statuses, messages and output of commands.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::ExitCode;

/// A defect was found: a damaged file, or a job that cannot be protected.
pub const DEFECT_FOUND: u8 = 1;
/// Wrong usage: invalid words, values or settings.
pub const USAGE: u8 = 2;
/// No result is possible, for example because a directory does not exist or is empty.
pub const IMPOSSIBLE: u8 = 3;

/// The statuses of all commands, for the help text.
///
/// A command with other statuses lists them in its own help.
pub const STATUSES: &str = "Exit status:\n  \
    0  done, and nothing is wrong\n  \
    1  done, but a defect was found; the output says which\n  \
    2  wrong usage\n  \
    3  not done, and a message says why\n\n\
    `understudy run` exits with the program's status; see `understudy run --help`.";

/// Result of a command.
pub type Outcome = Result<ExitCode, Failure>;

/// Reason for which a command did not do what was requested.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Returns a failure with a specific status.
    pub fn with_status(status: u8, message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            status,
        }
    }

    /// Returns the message for the user.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message on standard error, and returns the status.
    pub fn report(self) -> ExitCode {
        understudy_launch::print_message(&self.message);
        ExitCode::from(self.status)
    }
}

/// Any error of a library is a failure with the status [`IMPOSSIBLE`].
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::with_status(IMPOSSIBLE, error)
    }
}

/// Writes to standard output.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    print_by(|out| out.write_all(text.as_ref()))
}

/// Lets `write` write to standard output, piece by piece; a closed pipe is no failure.
pub fn print_by(
    write: impl FnOnce(&mut BufWriter<StdoutLock>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        // The reader (a pager, head) has exited.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            drop(out.into_parts());
            Ok(())
        }
        Err(error) => Err(Failure::with_status(
            IMPOSSIBLE,
            format_args!(
                "standard output cannot be written to: {error}. Redirect it to where there is room."
            ),
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

/// Returns 0, or 1 if a defect was found.
pub fn verdict(is_well: bool) -> ExitCode {
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DEFECT_FOUND)
    }
}
