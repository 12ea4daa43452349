//! Assignment of joining processes to dead workers.

use crate::plan_input::PlanInput;
use crate::process_report::{KeptReplicas, ProcessReport};
use std::collections::HashMap;
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Replacement of a dead worker by a joining process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    pub worker: Worker,
    pub process: ProcessNumber,
    /// True if the process already has the worker's own replica.
    pub has_own: bool,
    /// Layers (`1 << layer`) in which the process already has the replica that the worker stored.
    pub layers: u64,
}

/// Replacements of a plan, indexed by worker.
pub struct Takeovers {
    /// Takeovers in ascending order of workers.
    all: Vec<Takeover>,
}

impl Takeovers {
    /// Assigns a joining process to each dead worker; `dead` are in ascending order.
    ///
    /// First choice is a process that has the worker's replicas of this epoch already, then a free
    /// process named by a hint, then the first free process. A process with the replicas of a dead
    /// worker is not free. Without an epoch, replicas in joining processes do not count.
    ///
    /// # Panics
    /// Panics if fewer processes join than workers are dead; the leader starts enough processes.
    pub fn assign(input: &PlanInput, dead: &[Worker], epoch: Option<Epoch>) -> Takeovers {
        let joining = input.joining();
        assert!(
            dead.len() <= joining.len(),
            "fewer processes join than workers are dead"
        );
        let mut free = FreeProcesses::new(joining);
        let with_replicas: Vec<Option<&ProcessReport>> = match epoch {
            Some(epoch) => free.take_those_with_replicas(dead, epoch),
            None => vec![None; dead.len()],
        };
        let hints: HashMap<Worker, ProcessNumber> = input
            .hints
            .iter()
            .rev()
            .map(|hint| (hint.worker, hint.spare))
            .collect();
        let named: Vec<Option<&ProcessReport>> = dead
            .iter()
            .zip(&with_replicas)
            .map(|(worker, with_replicas)| {
                let spare = with_replicas.is_none().then(|| hints.get(worker))?;
                free.take(*spare?)
            })
            .collect();
        let mut rest = free.into_remaining();
        let chosen = dead.iter().zip(with_replicas).zip(named);
        let all = chosen.filter_map(|((&worker, with_replicas), named)| {
            let process = with_replicas.or(named).or_else(|| rest.next())?;
            let kept = kept_replicas(process, worker, epoch);
            Some(Takeover {
                worker,
                process: process.process,
                has_own: kept.is_some_and(|kept| kept.has_own),
                layers: kept
                    .zip(epoch)
                    .map_or(0, |(kept, epoch)| kept.layers_at(epoch)),
            })
        });
        Takeovers { all: all.collect() }
    }

    /// Returns the takeover of this worker, if it is dead.
    pub fn get(&self, worker: Worker) -> Option<&Takeover> {
        let at = self
            .all
            .binary_search_by_key(&worker, |takeover| takeover.worker);
        at.ok().map(|at| &self.all[at])
    }

    /// Returns all takeovers in ascending order of workers.
    pub fn into_list(self) -> Vec<Takeover> {
        self.all
    }
}

/// Returns the replicas of `worker` at this epoch in a process.
fn kept_replicas(
    process: &ProcessReport,
    worker: Worker,
    epoch: Option<Epoch>,
) -> Option<KeptReplicas> {
    let kept = process.kept.filter(|kept| kept.own == worker);
    kept.filter(|kept| epoch.is_some_and(|epoch| kept.reaches(epoch)))
}

/// Joining processes without a worker, in the order of their reports.
struct FreeProcesses<'a> {
    /// A taken process is `None`.
    processes: Vec<Option<&'a ProcessReport>>,
    index_of: HashMap<ProcessNumber, usize>,
}

impl<'a> FreeProcesses<'a> {
    fn new(joining: Vec<&'a ProcessReport>) -> FreeProcesses<'a> {
        let numbers = joining.iter().map(|report| report.process);
        FreeProcesses {
            index_of: numbers.zip(0..).collect(),
            processes: joining.into_iter().map(Some).collect(),
        }
    }

    /// Takes the first process with replicas of each of these workers.
    fn take_those_with_replicas(
        &mut self,
        dead: &[Worker],
        epoch: Epoch,
    ) -> Vec<Option<&'a ProcessReport>> {
        let mut first_with_replicas: HashMap<Worker, usize> = HashMap::new();
        for (at, report) in self.processes.iter().enumerate() {
            let kept = report.and_then(|report| report.kept);
            if let Some(kept) = kept.filter(|kept| kept.reaches(epoch)) {
                first_with_replicas.entry(kept.own).or_insert(at);
            }
        }
        let take_first = |worker| {
            first_with_replicas
                .get(worker)
                .and_then(|&at| self.processes[at].take())
        };
        dead.iter().map(take_first).collect()
    }

    /// Takes this process, if it is free.
    fn take(&mut self, process: ProcessNumber) -> Option<&'a ProcessReport> {
        self.processes[*self.index_of.get(&process)?].take()
    }

    fn into_remaining(self) -> impl Iterator<Item = &'a ProcessReport> {
        self.processes.into_iter().flatten()
    }
}
