//! Replicas in one process, as the process reports them to a recovery.
//!
//! The module describes replicas and stores none. A worker that has run since the last recovery is
//! described by its committed and its pending checkpoint alone. The inventory describes the other
//! cases: replicas in a process that has not taken over yet, and replicas that were found damaged.

use crate::process_report::{DamagedReplica, KeptReplicas};
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Replicas that a process reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplicaInventory {
    kept: Option<KeptReplicas>,
    damaged: Vec<DamagedReplica>,
}

impl ReplicaInventory {
    /// State at the start of a process.
    pub const EMPTY: ReplicaInventory = ReplicaInventory {
        kept: None,
        damaged: Vec::new(),
    };

    /// Returns the replicas of a joining process.
    ///
    /// A dead process has left the replicas, or an attempt has failed after they were received.
    pub fn kept(&self) -> Option<KeptReplicas> {
        self.kept
    }

    /// Returns the replicas that were found damaged in this recovery.
    pub fn damaged(&self) -> &[DamagedReplica] {
        &self.damaged
    }

    /// Adopts the replicas that a dead process has left.
    pub fn adopt(&mut self, left: KeptReplicas) {
        self.kept = Some(left);
    }

    /// Records that all processes roll back to `epoch`.
    ///
    /// Kept replicas of `epoch` and of another epoch then count for `epoch` only. Kept replicas
    /// that are not of `epoch` do not change.
    pub fn resolve(&mut self, epoch: Epoch) {
        if let Some(kept) = &mut self.kept
            && kept.reaches(epoch)
        {
            kept.layers = kept.layers_at(epoch);
            (kept.epoch, kept.whole) = (epoch, None);
        }
    }

    /// Records that the own replica of `worker` will be overwritten by a received one.
    ///
    /// The kept replicas of other workers stay valid if they belong to `worker` and `epoch`.
    pub fn begin_fetch(&mut self, worker: Worker, epoch: Epoch) {
        self.kept = self
            .kept
            .filter(|kept| kept.own == worker && kept.epoch == epoch);
        if let Some(kept) = &mut self.kept {
            kept.has_own = false;
        }
    }

    /// Records that this process, `at`, has the own replica of `worker`.
    pub fn end_fetch(&mut self, worker: Worker, epoch: Epoch, at: ProcessNumber) {
        self.accept(worker, at);
        self.kept = Some(KeptReplicas {
            own: worker,
            has_own: true,
            layers: self.kept.map_or(0, |kept| kept.layers),
            epoch,
            whole: None,
            whole_layers: 0,
            process: None,
        });
    }

    /// Records replicas of other workers in these layers (bit `1 << layer`).
    pub fn add_layers(&mut self, layers: u64) {
        if let Some(kept) = &mut self.kept {
            kept.layers |= layers;
        }
    }

    /// Forgets the replicas of a joining process.
    pub fn drop_kept(&mut self) {
        self.kept = None;
    }

    /// Records that the own replica of this process was found damaged.
    ///
    /// Replicas of other workers in this process stay usable.
    pub fn drop_own(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.has_own = false;
        }
    }

    /// Records damaged replicas, which no process may use any more in this recovery.
    pub fn refuse(&mut self, damaged: impl IntoIterator<Item = DamagedReplica>) {
        for replica in damaged {
            if !self.damaged.contains(&replica) {
                self.damaged.push(replica);
            }
        }
    }

    /// Records that a damaged replica of `worker` in process `at` was replaced.
    pub fn accept(&mut self, worker: Worker, at: ProcessNumber) {
        let replaced = DamagedReplica { worker, at };
        self.damaged.retain(|replica| *replica != replaced);
    }

    /// Records the success of a recovery, which has rebuilt all replicas.
    pub fn clear(&mut self) {
        *self = ReplicaInventory::EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopted() -> ReplicaInventory {
        let mut inventory = ReplicaInventory::EMPTY;
        inventory.adopt(KeptReplicas {
            own: Worker(1),
            has_own: true,
            layers: 1,
            epoch: Epoch(3),
            whole: Some(Epoch(4)),
            whole_layers: 3,
            process: Some(ProcessNumber(1)),
        });
        inventory
    }

    /// Returns the committed and the complete epoch after a return to `epoch`.
    fn resolved(epoch: u64) -> Option<(Epoch, Option<Epoch>)> {
        let mut inventory = adopted();
        inventory.resolve(Epoch(epoch));
        inventory.kept().map(|kept| (kept.epoch, kept.whole))
    }

    #[test]
    fn a_return_to_an_epoch_discards_the_other_one() {
        assert_eq!(resolved(4), Some((Epoch(4), None)));
        assert_eq!(resolved(3), Some((Epoch(3), None)));
        assert_eq!(resolved(2), Some((Epoch(3), Some(Epoch(4)))));
    }

    #[test]
    fn a_fetch_keeps_only_replicas_of_others_at_its_worker_and_epoch() {
        let mut inventory = adopted();
        inventory.begin_fetch(Worker(1), Epoch(3));
        let kept = inventory.kept().map(|kept| (kept.has_own, kept.layers));
        assert_eq!(kept, Some((false, 1)));
        for (worker, epoch) in [(1, 4), (2, 3)] {
            let mut inventory = adopted();
            inventory.begin_fetch(Worker(worker), Epoch(epoch));
            assert_eq!(inventory.kept(), None);
            inventory.end_fetch(Worker(worker), Epoch(epoch), ProcessNumber(9));
            let kept = inventory.kept().map(|kept| (kept.has_own, kept.layers));
            assert_eq!(kept, Some((true, 0)));
        }
    }

    #[test]
    fn a_replaced_replica_is_not_damaged_any_more() {
        let replica = |at| DamagedReplica {
            worker: Worker(1),
            at: ProcessNumber(at),
        };
        let mut inventory = ReplicaInventory::EMPTY;
        inventory.refuse([replica(1), replica(2), replica(1)]);
        assert_eq!(inventory.damaged(), [replica(1), replica(2)]);
        inventory.end_fetch(Worker(1), Epoch(3), ProcessNumber(1));
        assert_eq!(inventory.damaged(), [replica(2)]);
    }
}
