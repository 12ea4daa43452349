//! An event of a job on its clock.

use crate::described::described;
use serde::Serialize;
use understudy_formats::events::{Epoch, Kind, ProcessNumber, Record};

/// Maximum time of an event, in nanoseconds (146 years).
///
/// Later times are reduced to this one, because a damaged file may contain any number.
const LATEST_NS: u64 = i64::MAX as u64 / 2;

/// A record with a time on the job's clock or, in [`crate::Live`], since 1970.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Nanoseconds since the first rank has begun its file, or since 1970.
    pub at_ns: u64,
    #[serde(serialize_with = "described")]
    pub rank: ProcessNumber,
    #[serde(serialize_with = "described")]
    pub epoch: Epoch,
    #[serde(rename = "event")]
    #[serde(serialize_with = "described")]
    pub kind: Kind,
    /// Length of the record in its file, in bytes.
    #[serde(skip)]
    pub frame_bytes: usize,
}

impl Event {
    /// Returns the event of a record in a file that began at `since_ns`.
    pub fn new(rank: ProcessNumber, since_ns: u64, record: Record, bytes: usize) -> Self {
        let Record { t, epoch, kind } = record;
        Self {
            at_ns: since_ns.saturating_add(t).min(LATEST_NS),
            rank,
            epoch,
            kind,
            frame_bytes: bytes,
        }
    }
}
