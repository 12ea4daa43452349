//! A record of an event file, and the version of the format.

use super::kind::Kind;
use crate::describe::described;
use bincode::{Decode, Encode};
use understudy_numbers::Epoch;

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
        /// Nanoseconds of `CLOCK_MONOTONIC` since the moment in the file's [`super::Header`].
        pub t: u64,
        /// The epoch the rank was in.
        pub epoch: Epoch,
        pub kind: Kind,
    }
}
