//! The end of a process.

use bincode::{Decode, Encode};
use understudy_numbers::ProcessNumber;

/// Sender of a signal that has ended a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Killer {
    Unknown,
    Launcher,
    /// The kernel, for want of memory.
    Memory,
}

/// How a process has ended.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Ended {
    /// By `exit`, with this status; its process id was this.
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
    /// The output of a process has ended after so many bytes.
    Closed { number: ProcessNumber, written: u64 },
}
