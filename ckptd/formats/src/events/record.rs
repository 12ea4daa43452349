//! Record of an event file, and the version of the format.

use super::kind::Kind;
use crate::describe::described;
use bincode::{Decode, Encode};
use understudy_numbers::Epoch;

/// First bytes of every event file.
pub const MAGIC: [u8; 8] = *b"USTDYEVT";

/// Version of header, frame and payload together.
///
/// Payloads are positional. So *any* change to [`Record`], [`Kind`] or a type inside of them (a
/// field added, removed, reordered or retyped; a variant inserted anywhere) requires a new
/// version. A reader accepts exactly its own version and reports any other version.
pub const VERSION: u32 = 13;

described! {
    /// Entry of an event file.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct Record {
        /// Nanoseconds of `CLOCK_MONOTONIC` since the time in the file's [`super::Header`].
        pub t: u64,
        /// Epoch of the rank at that time.
        pub epoch: Epoch,
        pub kind: Kind,
    }
}
