//! Cost of protection for a job, for advice on the interval.

use crate::{Event, Recovery};
use std::collections::BTreeMap;
use understudy_formats::events::{Epoch, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Mean pause of the slowest worker for a checkpoint.
    ///
    /// The first checkpoint, which copies everything, is not included.
    pub pause_ns: u64,
    /// Number of checkpoints that are included.
    pub checkpoints: u64,
    /// Mean time from a failure to the resumed program; 0 without failures.
    pub recovery_ns: u64,
    /// Time from the first event to the last.
    pub elapsed_ns: u64,
    /// Number of completed recoveries.
    pub recoveries: u64,
}

/// Collects the costs of a job, event by event.
#[derive(Debug, Default)]
pub(super) struct CostCollector {
    /// Longest pause of each checkpoint except the first.
    pauses: BTreeMap<Epoch, u64>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl CostCollector {
    pub fn add(&mut self, event: &Event) {
        self.first_ns.get_or_insert(event.at_ns);
        self.last_ns = event.at_ns;
        if let Kind::Capture {
            epoch,
            scan_ns,
            copy_ns,
            ..
        } = event.kind
            && epoch.0 > 1
        {
            let pause = self.pauses.entry(epoch).or_default();
            *pause = (*pause).max(scan_ns.saturating_add(copy_ns));
        }
    }

    /// Returns the costs; `None` if no checkpoint follows the first.
    pub fn finish(self, recoveries: &[Recovery]) -> Option<Costs> {
        let checkpoints = self.pauses.len() as u64;
        let durations: Vec<u64> = recoveries
            .iter()
            .filter_map(|recovery| recovery.failure_to_resume_ns)
            .collect();
        let recoveries = durations.len() as u64;
        let sum = |times: &mut dyn Iterator<Item = u64>| times.fold(0, u64::saturating_add);
        Some(Costs {
            pause_ns: sum(&mut self.pauses.into_values()).checked_div(checkpoints)?,
            checkpoints,
            recovery_ns: sum(&mut durations.into_iter())
                .checked_div(recoveries)
                .unwrap_or(0),
            elapsed_ns: self.last_ns.saturating_sub(self.first_ns?),
            recoveries,
        })
    }
}
