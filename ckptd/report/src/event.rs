//! An event of a job on its clock.

use crate::described::described;
use serde::Serialize;
use understudy_formats::events::{Epoch, Kind, ProcessNumber, Record};

/// Latest time of an event, in nanoseconds: 146 years, also in a damaged file.
const LATEST_NS: u64 = i64::MAX as u64 / 2;

/// A record in the job's own time.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Nanoseconds since the first rank began its file.
    pub at_ns: u64,
    #[serde(serialize_with = "described")]
    pub rank: ProcessNumber,
    #[serde(serialize_with = "described")]
    pub epoch: Epoch,
    #[serde(rename = "event")]
    #[serde(serialize_with = "described")]
    pub kind: Kind,
    /// Bytes of the record in its file.
    #[serde(skip)]
    pub frame_bytes: usize,
}

impl Event {
    /// A record of a file that began at `since_ns`.
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
