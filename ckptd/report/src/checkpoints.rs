//! Statistics over the checkpoints of a job.

use crate::Event;
use crate::described::described;
use serde::Serialize;
use std::collections::BTreeSet;
use understudy_formats::events::{Epoch, Kind, ProcessNumber};

/// Count, sum and maximum of a quantity over all ranks and epochs.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub count: u64,
    pub total: u64,
    pub max: u64,
    /// Rank with the greatest value.
    #[serde(serialize_with = "described")]
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

/// Statistics of a job's checkpoints.
#[derive(Debug, Default, Serialize)]
pub struct Checkpoints {
    /// Number of epochs that were cut by at least one rank.
    pub cut: usize,
    /// Number of epochs that were committed by at least one rank.
    pub committed: usize,
    #[serde(serialize_with = "described")]
    pub last_committed: Option<Epoch>,
    pub capture_bytes: Summary,
    pub capture_pages: Summary,
    pub scan_ns: Summary,
    pub copy_ns: Summary,
    pub ship_bytes: Summary,
    /// Deduplicated pages, which the buddy has itself.
    pub alike_pages: Summary,
    pub ship_ns: Summary,
    pub received_bytes: Summary,
    /// Time from the cut to the commit.
    pub commit_ns: Summary,
    /// All checkpoints in order of time.
    #[serde(skip)]
    pub points: Vec<CheckpointPoint>,
}

/// Number of newest checkpoints in which the checkpoint of a commit is searched.
const MAX_UNCOMMITTED: usize = 64;

/// A checkpoint of all workers.
#[derive(Debug, Default, Clone, Copy)]
pub struct CheckpointPoint {
    pub epoch: Epoch,
    /// Time of the first capture, on the job's clock.
    pub at_ns: u64,
    /// Time of the last capture, on the job's clock.
    pub last_ns: u64,
    pub bytes: u64,
    /// Pause of the slowest worker.
    pub pause_ns: u64,
    /// Time of the first rank's commit, on the job's clock; `None` without a commit.
    pub committed_ns: Option<u64>,
}

impl CheckpointPoint {
    pub fn is_committed(&self) -> bool {
        self.committed_ns.is_some()
    }
}

/// Collects the checkpoints of a job, event by event.
#[derive(Debug, Default)]
pub(super) struct CheckpointCollector {
    checkpoints: Checkpoints,
    cut: BTreeSet<Epoch>,
    committed: BTreeSet<Epoch>,
    /// Ranks that are included in the newest point.
    captured: BTreeSet<ProcessNumber>,
}

impl CheckpointCollector {
    pub fn add(&mut self, event: &Event) {
        let (checkpoints, rank) = (&mut self.checkpoints, event.rank);
        match event.kind {
            Kind::Cut { epoch, .. } => {
                self.cut.insert(epoch);
            }
            Kind::Capture {
                epoch,
                pages,
                bytes,
                scan_ns,
                copy_ns,
            } => {
                checkpoints.capture_pages.add(rank, pages);
                checkpoints.capture_bytes.add(rank, bytes);
                checkpoints.scan_ns.add(rank, scan_ns);
                checkpoints.copy_ns.add(rank, copy_ns);
                let point = self.point(epoch, event);
                point.last_ns = event.at_ns;
                point.bytes = point.bytes.saturating_add(bytes);
                point.pause_ns = point.pause_ns.max(scan_ns.saturating_add(copy_ns));
            }
            Kind::Ship {
                bytes, alike, ns, ..
            } => {
                checkpoints.ship_bytes.add(rank, bytes);
                if alike > 0 {
                    checkpoints.alike_pages.add(rank, alike);
                }
                checkpoints.ship_ns.add(rank, ns);
            }
            Kind::Received { bytes, .. } => checkpoints.received_bytes.add(rank, bytes),
            Kind::Commit { epoch, ns } => {
                self.committed.insert(epoch);
                checkpoints.commit_ns.add(rank, ns);
                let mut points = checkpoints.points.iter_mut().rev().take(MAX_UNCOMMITTED);
                if let Some(point) = points.find(|point| point.epoch == epoch) {
                    point.committed_ns.get_or_insert(event.at_ns);
                }
            }
            _ => {}
        }
    }

    /// Returns the point to which a capture belongs.
    ///
    /// A new point begins with a new epoch, and when a rank captures the epoch once more because a
    /// recovery has led to a second cut.
    fn point(&mut self, epoch: Epoch, event: &Event) -> &mut CheckpointPoint {
        let points = &mut self.checkpoints.points;
        let is_same = points.last().is_some_and(|last| last.epoch == epoch);
        let is_first = self.captured.insert(event.rank);
        if !(is_same && is_first) {
            self.captured = BTreeSet::from([event.rank]);
            points.push(CheckpointPoint {
                epoch,
                at_ns: event.at_ns,
                ..CheckpointPoint::default()
            });
        }
        points.last_mut().expect("there is one")
    }

    pub fn finish(self) -> Checkpoints {
        Checkpoints {
            cut: self.cut.len(),
            committed: self.committed.len(),
            last_committed: self.committed.last().copied(),
            ..self.checkpoints
        }
    }
}
