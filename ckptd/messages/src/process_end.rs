//! The end of a process.

use bincode::{Decode, Encode};
use understudy_numbers::ProcessNumber;

/// Sender of the signal that has killed a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Killer {
    Unknown,
    Launcher,
    /// The kernel's out-of-memory killer.
    OutOfMemory,
}

/// Reason for the end of a process, or the end of its output.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ProcessEnd {
    /// The process has exited with this status, or could not be started.
    Exited {
        number: ProcessNumber,
        status: i32,
        /// Process id of the guardian's child; 0 if it could not be started.
        pid: u32,
    },
    Killed {
        number: ProcessNumber,
        signal: i32,
        by: Killer,
    },
    /// The output of a process has ended; standard output had this number of bytes.
    OutputClosed { number: ProcessNumber, written: u64 },
}
