//! The event file: one machine-readable file per rank, `rank-N.events`.
//!
//! ```text
//! header   magic[8] version:u32 rank:u32 realtime_ns:u64 monotonic_ns:u64 check:u32    (36 bytes)
//! record*  len:u32  check:u32  payload[len]
//! ```
//!
//! All integers are little-endian. `payload` is a [`Record`] in bincode 2's standard configuration;
//! `check` is the low half of XXH3-64 over the preceding bytes (header) or over the payload with
//! `len` as the seed (records). Every record is one `write(2)` on an `O_APPEND` descriptor, so a
//! rank killed at any moment leaves a file that is readable up to its last complete record.

mod clock;
mod codec;
mod file_name;
mod follower;
mod kind;
mod reader;
mod record;
mod stream;
mod tables;
mod writer;

pub use clock::{ClockPair, monotonic_ns, realtime_ns};
pub use codec::{HEADER_LEN, Header, MAX_PAYLOAD, encode_record};
pub use file_name::{file_name, rank_of_file_name};
pub use follower::EventFollower;
pub use kind::{
    COPIES, COPIES_IN_OWN_DOMAIN, EndReason, ErrorClass, Kind, NETWORK, RecoveryStage, Role,
    SpareChoice,
};
pub use reader::EventReader;
pub use record::{MAGIC, Record, VERSION};
pub use stream::{FramedRecord, ReadError};
pub use tables::{Amount, AnnotationKind, AnnotationSaving, JournalCalls, JournalRow, Traffic};
pub use understudy_numbers::{Epoch, ProcessNumber, Spare, Worker};
pub use writer::EventWriter;
