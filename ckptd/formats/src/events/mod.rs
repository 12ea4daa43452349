//! The event file: one machine-readable file per rank, `rank-N.events`.
//!
//! ```text
//! header   magic[8] version:u32 rank:u32 realtime_ns:u64 monotonic_ns:u64 check:u32    (36 bytes)
//! record*  len:u32  check:u32  payload[len]
//! ```
//!
//! All integers are little-endian. `payload` is a [`Record`] in bincode 2's standard configuration;
//! `check` is the low half of XXH3-64 over what precedes it (header) or over the payload with `len`
//! as the seed (records). Every record is one `write(2)` on an `O_APPEND` descriptor, so a rank
//! killed at any moment leaves a file that is readable up to its last whole record.

mod clock;
mod codec;
mod follower;
mod kind;
mod reader;
mod stream;
mod tables;
mod writer;

pub use clock::{ClockPair, monotonic_ns, realtime_ns};
pub use codec::{HEADER_LEN, Header, MAX_PAYLOAD, encode_record};
pub use follower::Follower;
pub use kind::{EndHow, ErrorClass, Kind, RecoveryStage, Role, SpareChoice};
pub use reader::EventReader;
pub use stream::{Framed, ReadError};
pub use tables::{Amount, JournalCalls, JournalRow, MarkSaving, MarkWay, Traffic};
pub use understudy_numbers::{Epoch, ProcessNumber, Spare, Worker};
pub use writer::EventWriter;

use crate::describe::described;
use bincode::{Decode, Encode};

/// First bytes of every event file.
pub const MAGIC: [u8; 8] = *b"USTDYEVT";

/// Version of header, frame and payload together.
///
/// Bump rule: payloads are positional, so *any* change to [`Record`], [`Kind`] or a type inside it
/// (a field added, removed, reordered or retyped; a variant inserted anywhere) is a new version. A
/// reader accepts exactly its own version and names the other one when it refuses.
pub const VERSION: u32 = 13;

described! {
    /// Entry of an event file.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct Record {
        /// Nanoseconds of `CLOCK_MONOTONIC` since the moment in the file's [`Header`].
        pub t: u64,
        /// The epoch the rank was in.
        pub epoch: Epoch,
        pub kind: Kind,
    }
}

/// Name of the event file of a rank.
pub fn file_name(rank: ProcessNumber) -> String {
    format!("rank-{}.events", rank.0)
}

/// The rank an event file's name speaks of; `None` for any other file.
pub fn rank_of_file_name(name: &str) -> Option<ProcessNumber> {
    name.strip_prefix("rank-")?
        .strip_suffix(".events")?
        .parse()
        .ok()
        .map(ProcessNumber)
}
