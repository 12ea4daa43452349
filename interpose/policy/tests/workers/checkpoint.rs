//! A checkpoint of all workers from its capture to its commit, simulated.

use crate::process::{Process, ReplicaRecord};
use std::collections::HashSet;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::max_reduction::{MaxReduction, ReductionAction};
use understudy_policy::pending_stages::{PendingAction, PendingStage};
use understudy_policy::redundancy::Redundancy;

/// Worker that takes part in the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Participant {
    stage: PendingStage,
    /// True if the worker has recorded complete replicas.
    has_replicas: bool,
    vote: MaxReduction,
}

/// Checkpoint of all workers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    epoch: Epoch,
    workers: Vec<Participant>,
}

impl Checkpoint {
    /// State after the capture of this epoch.
    pub fn captured(workers: u32, epoch: Epoch) -> Checkpoint {
        let numbers = [epoch.0 as i64, -(epoch.0 as i64), 0, 0];
        let participant = |worker| Participant {
            stage: PendingStage::Preparing,
            has_replicas: false,
            vote: MaxReduction::new(worker, workers, numbers),
        };
        Checkpoint {
            epoch,
            workers: Worker::all(workers).map(participant).collect(),
        }
    }

    /// Returns the committed epoch of a worker, and its pending one if that is complete.
    pub fn epochs(&self, worker: Worker) -> (Epoch, Option<Epoch>) {
        let stage = self.workers[worker.index()].stage;
        match stage {
            PendingStage::Committed => (self.epoch, None),
            _ => (
                Epoch(self.epoch.0 - 1),
                stage.is_complete().then_some(self.epoch),
            ),
        }
    }

    /// Returns the replicas that a worker really has.
    ///
    /// `lacking` has the layers that this checkpoint brings.
    fn replicas(&self, worker: Worker, lacking: u64) -> ReplicaRecord {
        let (committed, _) = self.epochs(worker);
        let is_pending = committed < self.epoch;
        let is_complete = self.workers[worker.index()].has_replicas && is_pending;
        ReplicaRecord {
            worker,
            committed,
            lacking: if is_pending { lacking } else { 0 },
            complete: is_complete.then_some(self.epoch),
        }
    }

    /// Returns the processes of the workers, as a failure finds them now.
    ///
    /// `lacking` has the layers of each worker that this checkpoint brings.
    pub fn processes(&self, redundancy: &Redundancy, lacking: &[u64]) -> Vec<Process> {
        let process = |worker: Worker| {
            let replicas = self.replicas(worker, lacking[worker.index()]);
            let (_, complete) = self.epochs(worker);
            Process::worker(worker, replicas, complete, redundancy)
        };
        Worker::all(self.workers.len() as u32)
            .map(process)
            .collect()
    }

    /// Makes a worker proceed by one step; returns false if it waits for others.
    pub fn proceed(&mut self, worker: Worker, redundancy: &Redundancy) -> bool {
        if self.end_round(worker) {
            return true;
        }
        let can_end = match self.workers[worker.index()].stage {
            PendingStage::Committed => false,
            PendingStage::Receiving => redundancy
                .owners_at(worker)
                .all(|owner| self.workers[owner.index()].stage > PendingStage::Preparing),
            PendingStage::Voting => self.result(worker).is_some(),
            _ => true,
        };
        let participant = &mut self.workers[worker.index()];
        let action = can_end.then(|| participant.stage.step()).flatten();
        participant.has_replicas |= action == Some(PendingAction::RecordAndVote);
        if action == Some(PendingAction::Commit) {
            let epoch = self.epoch.0 as i64;
            assert_eq!(
                self.result(worker).map(|numbers| numbers[..2].to_vec()),
                Some(vec![epoch, -epoch])
            );
        }
        can_end
    }

    fn result(&self, worker: Worker) -> Option<[i64; 4]> {
        match self.workers[worker.index()].vote.action() {
            ReductionAction::End(numbers) => Some(numbers),
            ReductionAction::Exchange { .. } => None,
        }
    }

    /// Ends a round of a worker's vote, if all its sources have sent their numbers.
    fn end_round(&mut self, worker: Worker) -> bool {
        let me = &self.workers[worker.index()];
        let ReductionAction::Exchange { round } = me.vote.action() else {
            return false;
        };
        let has_sent = |source: Worker| {
            let source = &self.workers[source.index()];
            let has_begun = match source.vote.action() {
                ReductionAction::Exchange { round: at } => at >= round,
                ReductionAction::End(_) => true,
            };
            source.stage.is_complete() && has_begun
        };
        if !matches!(me.stage, PendingStage::Shipping | PendingStage::Voting)
            || !me.vote.sources(round).all(has_sent)
        {
            return false;
        }
        // All workers vote with equal numbers, whichever round they have reached.
        let numbers = me.vote.numbers();
        self.workers[worker.index()].vote.end_round([&numbers]);
        true
    }
}

/// Returns all states that the checkpoint can reach.
pub fn all_states(workers: u32, epoch: Epoch, redundancy: &Redundancy) -> Vec<Checkpoint> {
    let start = Checkpoint::captured(workers, epoch);
    let mut seen = HashSet::from([start.clone()]);
    let mut waiting = vec![start];
    while let Some(state) = waiting.pop() {
        for worker in Worker::all(workers) {
            let mut next = state.clone();
            if next.proceed(worker, redundancy) && seen.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    seen.into_iter().collect()
}
