//! Memory that a process shares with its manager and guardian.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Memory that a process and its manager share.
///
/// A succeeding manager reads the state of the process here. A flag is set if its word is not 0.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SharedPage {
    /// Generation that has begun or is to begin; written by the manager.
    pub generation: AtomicU32,
    /// Number of the thread that is in the MPI library, [`super::MAIN_THREAD`], or 0 for none.
    ///
    /// Written by the process.
    pub is_inside: AtomicU32,
    /// Last generation for which the process was ready, plus one; written by the process.
    pub ready: AtomicU32,
    /// Set if the process has been in a generation that began, or has adopted replicas.
    ///
    /// Written by the manager.
    pub has_taken_part: AtomicU32,
    /// Set if the process has continued the program in a generation; written by the process.
    pub has_run: AtomicU32,
    /// Set if some process had continued the program before the generation of this process began.
    ///
    /// Written by the manager.
    pub is_protected: AtomicU32,
    /// Set if all workers are in `MPI_Finalize`.
    ///
    /// Written by the manager, before any process is notified.
    pub has_ended: AtomicU32,
    /// Process id of the manager; written by the manager.
    pub manager: AtomicU32,
    /// Set if the main thread accepts [`super::INTERRUPT`] at any point; written by the process.
    pub is_interruptible: AtomicU32,
    /// Number of deaths of idle spares since the process connected; written by the manager.
    pub spare_deaths: AtomicU32,
    /// Number of the last order to leave, which is withdrawn if the number is even.
    ///
    /// Written by the manager.
    pub leave_order: AtomicU32,
    /// Times at which a launcher last sent each of [`REPEATED_SIGNALS`]; written by the guardian.
    ///
    /// Nanoseconds since 1970; 0 for never.
    pub signal_times: [AtomicU64; REPEATED_SIGNALS.len()],
    /// Number of the last [`CheckpointRequest`]; 0 for none. Written by the manager.
    pub checkpoint_request: AtomicU64,
    /// Addresses by which the guardian finds the process's last MPI call.
    ///
    /// Written by the process; 0 until then.
    pub calls: CallAddresses,
}

/// Addresses in the memory of a process that describe its last MPI call.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CallAddresses {
    /// Address of the state of the call, three bytes.
    ///
    /// The first byte is the runtime's. The second is a mark, which every call removes, and the
    /// third is 1 during a call.
    pub state: AtomicU64,
    /// Address of the word with the end of the last call's frame.
    ///
    /// [`FRAME_BYTES`] before the end is the number of the procedure, and a word before the end is
    /// the program's stack pointer, which points to the return address.
    pub frame_end: AtomicU64,
    /// Address of the table of procedures.
    ///
    /// An entry has the address and the length of a name, with the NUL.
    pub names: AtomicU64,
}

/// Size in bytes of the frame of a call ([`CallAddresses::frame_end`]).
pub const FRAME_BYTES: u64 = 112;

/// Signals to all ranks that are delivered again after a rollback.
pub const REPEATED_SIGNALS: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Length in bytes of the memory that contains a [`SharedPage`].
pub const PAGE_BYTES: usize = 4096;

/// Request for a checkpoint on disk, by a signal to a process of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointRequest {
    pub signal: i32,
    /// Time of the request in microseconds since 1970, which distinguishes requests.
    pub time_us: u64,
}

impl CheckpointRequest {
    /// Number of bits of a signal's number.
    const SIGNAL_BITS: u32 = 8;

    /// Returns the number that the page contains.
    pub fn number(self) -> u64 {
        self.time_us << Self::SIGNAL_BITS | u64::from(self.signal.unsigned_abs() & 0xff)
    }

    /// Returns the request with this number; `None` for 0.
    pub fn from_number(number: u64) -> Option<CheckpointRequest> {
        (number != 0).then_some(CheckpointRequest {
            signal: (number & 0xff) as i32,
            time_us: number >> Self::SIGNAL_BITS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let time_us = 1_800_000_000_000_000;
        let request = CheckpointRequest {
            signal: 15,
            time_us,
        };
        assert_eq!(
            CheckpointRequest::from_number(request.number()),
            Some(request)
        );
        assert_eq!(CheckpointRequest::from_number(0), None);
    }
}
