//! Input of a recovery plan, indexed by worker.

use crate::process_report::{DamagedReplica, KeptReplicas, ProcessReport};
use crate::redundancy::Redundancy;
use std::collections::{HashMap, HashSet};
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
    pub hints: &'a [RequestedSpare],
    /// Report of each worker's process; `None` for a dead worker.
    report_of: Vec<Option<&'a ProcessReport>>,
    /// Replicas of dead workers in joining processes, in the order of the reports.
    inherited: HashMap<Worker, Vec<&'a KeptReplicas>>,
    damaged: HashSet<DamagedReplica>,
}

impl<'a> PlanInput<'a> {
    /// Indexes the reports of a job with `workers` workers.
    pub fn new(
        living: &'a [ProcessReport],
        redundancy: &'a Redundancy,
        workers: u32,
        hints: &'a [RequestedSpare],
    ) -> PlanInput<'a> {
        let mut report_of: Vec<Option<&ProcessReport>> = vec![None; workers as usize];
        for report in living {
            if let Some(worker) = report.worker {
                report_of[worker.index()].get_or_insert(report);
            }
        }
        let mut inherited: HashMap<Worker, Vec<&KeptReplicas>> = HashMap::new();
        for report in living.iter().filter(|report| report.worker.is_none()) {
            if let Some(kept) = &report.kept
                && report_of[kept.own.index()].is_none()
            {
                inherited.entry(kept.own).or_default().push(kept);
            }
        }
        let damaged = living.iter().flat_map(|report| &report.damaged);
        PlanInput {
            living,
            redundancy,
            hints,
            report_of,
            inherited,
            damaged: damaged.copied().collect(),
        }
    }

    /// Returns all workers.
    pub fn workers(&self) -> impl ExactSizeIterator<Item = Worker> + use<> {
        Worker::all(self.report_of.len() as u32)
    }

    /// Returns the report of this worker's process; `None` for a dead worker.
    pub fn report_of(&self, worker: Worker) -> Option<&'a ProcessReport> {
        self.report_of[worker.index()]
    }

    /// Returns the workers without a living process, in ascending order.
    pub fn dead(&self) -> Vec<Worker> {
        let is_dead = |worker: &Worker| self.report_of(*worker).is_none();
        self.workers().filter(is_dead).collect()
    }

    /// Returns the reports of the joining processes.
    pub fn joining(&self) -> Vec<&'a ProcessReport> {
        self.living
            .iter()
            .filter(|report| report.worker.is_none())
            .collect()
    }

    /// Iterates over the replicas of dead workers in joining processes.
    pub fn inherited(&self) -> impl Iterator<Item = &'a KeptReplicas> {
        self.inherited.values().flatten().copied()
    }

    /// Iterates over the replicas of this dead worker in joining processes.
    pub fn inherited_from(&self, worker: Worker) -> impl Iterator<Item = &'a KeptReplicas> {
        self.inherited.get(&worker).into_iter().flatten().copied()
    }

    /// Returns the replicas of this epoch that this dead worker has left.
    fn inherited_at(&self, worker: Worker, epoch: Epoch) -> Option<&'a KeptReplicas> {
        self.inherited_from(worker).find(|kept| kept.reaches(epoch))
    }

    /// True if a replica of this dead worker at this epoch exists.
    ///
    /// The caller checks that all living workers have this epoch.
    pub fn is_kept(&self, worker: Worker, epoch: Epoch) -> bool {
        let has_replica = |(layer, buddy): (usize, Worker)| match self.report_of(buddy) {
            Some(report) => report.stores(layer, epoch),
            None => self
                .inherited_at(buddy, epoch)
                .is_some_and(|kept| kept.layers_at(epoch) & (1 << layer) != 0),
        };
        let mut buddies = self
            .redundancy
            .buddies_of(worker)
            .enumerate()
            .map(has_replica);
        let is_stored = match self.redundancy.is_parity() {
            true => buddies.all(|has_replica| has_replica),
            false => buddies.any(|has_replica| has_replica),
        };
        is_stored
            || self
                .inherited_at(worker, epoch)
                .is_some_and(|kept| kept.has_own)
    }

    /// True if lost replicas can be made again after the program has resumed.
    ///
    /// With parity they cannot: all members of a group would have to send their whole memory.
    pub fn can_defer_replicas(&self) -> bool {
        !self.redundancy.is_parity() && self.living.iter().all(|report| report.can_defer)
    }

    /// True if the replica of this worker in this process was found damaged.
    pub fn is_damaged(&self, worker: Worker, process: ProcessNumber) -> bool {
        let replica = DamagedReplica {
            worker,
            at: process,
        };
        self.damaged.contains(&replica)
    }
}
