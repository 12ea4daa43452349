//! What protection has cost a job, for advice on the interval.

use super::{Event, Recovery};
use crate::events::{Epoch, Kind};
use std::collections::BTreeMap;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// How long a checkpoint has kept the slowest worker, in the mean of all but the first, which copies everything.
    pub pause_ns: u64,
    /// Checkpoints that this is about.
    pub checkpoints: u64,
    /// From a failure's detection to the last rank's return, in the mean; 0 without failures.
    pub recovery_ns: u64,
    /// From the first event to the last.
    pub elapsed_ns: u64,
    /// Recoveries that were completed.
    pub recoveries: u64,
}

impl Costs {
    /// `None` without a checkpoint after the first.
    pub fn new(events: &[Event], recoveries: &[Recovery]) -> Option<Self> {
        let mut pauses: BTreeMap<Epoch, u64> = BTreeMap::new();
        for event in events {
            if let Kind::Capture {
                epoch,
                scan_ns,
                copy_ns,
                ..
            } = event.kind
                && epoch.0 > 1
            {
                let pause = pauses.entry(epoch).or_default();
                *pause = (*pause).max(scan_ns.saturating_add(copy_ns));
            }
        }
        let checkpoints = pauses.len() as u64;
        let durations: Vec<u64> = recoveries
            .iter()
            .filter_map(|recovery| recovery.detect_to_resume_ns)
            .collect();
        let recoveries = durations.len() as u64;
        Some(Self {
            pause_ns: pauses
                .values()
                .copied()
                .fold(0, u64::saturating_add)
                .checked_div(checkpoints)?,
            checkpoints,
            recovery_ns: durations
                .iter()
                .copied()
                .fold(0, u64::saturating_add)
                .checked_div(recoveries)
                .unwrap_or(0),
            elapsed_ns: events.last()?.at_ns.saturating_sub(events.first()?.at_ns),
            recoveries,
        })
    }
}
