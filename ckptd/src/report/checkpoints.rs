//! Statistics over the checkpoints of a job.

use super::Event;
use crate::events::{Epoch, Kind, ProcessNumber};
use serde::Serialize;
use std::collections::BTreeSet;

/// Count, sum and greatest of a quantity over all ranks and epochs.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub count: u64,
    pub total: u64,
    pub max: u64,
    /// The rank the greatest value comes from.
    pub max_rank: Option<ProcessNumber>,
}

impl Summary {
    fn add(&mut self, rank: ProcessNumber, value: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(value);
        if self.max_rank.is_none() || value > self.max {
            (self.max, self.max_rank) = (value, Some(rank));
        }
    }

    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }
}

/// All that is known about a job's checkpoints.
#[derive(Debug, Default, Serialize)]
pub struct Checkpoints {
    /// Epochs cut, and committed, by at least one rank.
    pub cut: usize,
    pub committed: usize,
    pub last_committed: Option<Epoch>,
    pub capture_bytes: Summary,
    pub capture_pages: Summary,
    pub scan_ns: Summary,
    pub copy_ns: Summary,
    pub ship_bytes: Summary,
    /// Pages that were left out of it, since the holder has them itself.
    pub alike_pages: Summary,
    pub ship_ns: Summary,
    pub received_bytes: Summary,
    /// From cut to commit.
    pub commit_ns: Summary,
}

impl Checkpoints {
    pub(super) fn new(events: &[Event]) -> Self {
        let mut it = Self::default();
        let (mut cut, mut committed) = (BTreeSet::new(), BTreeSet::new());
        for Event { rank, kind, .. } in events {
            match *kind {
                Kind::Cut { epoch, .. } => {
                    cut.insert(epoch);
                }
                Kind::Capture {
                    pages,
                    bytes,
                    scan_ns,
                    copy_ns,
                    ..
                } => {
                    it.capture_pages.add(*rank, pages);
                    it.capture_bytes.add(*rank, bytes);
                    it.scan_ns.add(*rank, scan_ns);
                    it.copy_ns.add(*rank, copy_ns);
                }
                Kind::Ship {
                    bytes, alike, ns, ..
                } => {
                    it.ship_bytes.add(*rank, bytes);
                    if alike > 0 {
                        it.alike_pages.add(*rank, alike);
                    }
                    it.ship_ns.add(*rank, ns);
                }
                Kind::Received { bytes, .. } => it.received_bytes.add(*rank, bytes),
                Kind::Commit { epoch, ns } => {
                    committed.insert(epoch);
                    it.commit_ns.add(*rank, ns);
                }
                _ => {}
            }
        }
        (it.cut, it.committed, it.last_committed) =
            (cut.len(), committed.len(), committed.last().copied());
        it
    }
}
