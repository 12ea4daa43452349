//! Input of a recovery plan.

use crate::process_report::{DamagedReplica, KeptReplicas, ProcessReport};
use crate::redundancy::Redundancy;
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Hint that this spare should replace this worker; used if possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedSpare {
    pub worker: Worker,
    pub spare: ProcessNumber,
}

/// Reports of the living processes, as the input of a plan.
pub struct PlanInput<'a> {
    pub living: &'a [ProcessReport],
    pub redundancy: &'a Redundancy,
    pub workers: u32,
    pub hints: &'a [RequestedSpare],
}

impl PlanInput<'_> {
    pub fn process_of(&self, worker: Worker) -> Option<&ProcessReport> {
        self.living
            .iter()
            .find(|identity| identity.worker == Some(worker))
    }

    pub fn dead(&self) -> Vec<Worker> {
        Worker::all(self.workers)
            .filter(|&worker| self.process_of(worker).is_none())
            .collect()
    }

    pub fn joining(&self) -> Vec<&ProcessReport> {
        self.living
            .iter()
            .filter(|identity| identity.worker.is_none())
            .collect()
    }

    /// Iterates over joining processes that have the replicas of a dead worker.
    pub fn inherited(&self) -> impl Iterator<Item = &KeptReplicas> {
        let newcomers = self
            .living
            .iter()
            .filter(|identity| identity.worker.is_none());
        let held = newcomers.filter_map(|newcomer| newcomer.kept.as_ref());
        held.filter(|held| self.process_of(held.own).is_none())
    }

    /// Returns the replicas of this epoch that this dead worker has left.
    pub fn inherited_from(&self, worker: Worker, epoch: Epoch) -> Option<&KeptReplicas> {
        self.inherited()
            .find(|held| held.own == worker && held.reaches(epoch))
    }

    /// True if a replica of a dead worker exists.
    ///
    /// The caller checks that all living workers have this epoch.
    pub fn is_kept(&self, worker: Worker, epoch: Epoch) -> bool {
        let lives = |holder: Worker| {
            self.process_of(holder).is_some() || self.inherited_from(holder, epoch).is_some()
        };
        let mut live = self.redundancy.buddies_of(worker).map(lives);
        let is_held = match self.redundancy.is_parity() {
            true => live.all(|lives| lives),
            false => live.any(|lives| lives),
        };
        is_held
            || self
                .inherited_from(worker, epoch)
                .is_some_and(|held| held.has_own)
    }

    /// True if this process stores a replica of the worker that was found damaged.
    pub fn is_damaged(&self, worker: Worker, process: ProcessNumber) -> bool {
        let copy = DamagedReplica {
            worker,
            at: process,
        };
        self.living
            .iter()
            .any(|identity| identity.damaged.contains(&copy))
    }
}
