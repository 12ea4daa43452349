//! The end of a process.

use bincode::{Decode, Encode};
use understudy_numbers::ProcessNumber;

/// Sender of the signal that has killed a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Killer {
    Unknown,
    Launcher,
    /// The kernel's out-of-memory killer.
    Memory,
}

/// Reason for the end of a process, or the end of its output.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Ended {
    /// The process has called `exit` with this status.
    Exited {
        number: ProcessNumber,
        status: i32,
        pid: u32,
    },
    Killed {
        number: ProcessNumber,
        signal: i32,
        by: Killer,
    },
    /// The output of a process has ended after this number of bytes.
    Closed { number: ProcessNumber, written: u64 },
}
