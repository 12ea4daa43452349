//! Report of a process in a recovery.

use bincode::{Decode, Encode};
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Report of a living process about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ProcessReport {
    pub process: ProcessNumber,
    /// Worker that the process runs; `None` for a joining process.
    pub worker: Option<Worker>,
    /// Last epoch that the process has committed.
    pub committed: Epoch,
    /// Layers (`1 << layer`) whose replica the worker does not store at `committed`.
    ///
    /// The replica was deferred by an earlier plan ([`crate::recovery_plan::Plan::deferred`]).
    pub lacking: u64,
    /// Epoch whose replicas here are complete, but whose commit the process has not seen.
    pub complete: Option<Epoch>,
    /// Lost work in nanoseconds if all return to `committed` instead of `complete`.
    pub lost_ns: u64,
    /// Duration of sending a whole replica in nanoseconds; 0 if unknown.
    pub fetch_ns: u64,
    /// True if its own replicas are reduced.
    ///
    /// Such a process may need replicas that a dead process has left.
    pub is_reduced: bool,
    /// True if the process does not need lost replicas before the next checkpoint.
    ///
    /// Checkpoints are then taken at intervals of time, and its own replica has all pages.
    pub can_defer: bool,
    /// True if the process has requested spares from the daemon (`hints`).
    pub has_requested_spares: bool,
    /// Node that has left the job last, and its last checkpoint.
    pub departure: Option<(u64, Epoch)>,
    /// Replicas in a joining process.
    pub kept: Option<KeptReplicas>,
    /// Replicas that the process has found damaged in this recovery.
    pub damaged: Vec<DamagedReplica>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct DamagedReplica {
    /// Worker whose memory is replicated.
    pub worker: Worker,
    /// Process that stores the replica.
    pub at: ProcessNumber,
}

/// Replicas of an epoch in a joining process, equivalent to those of a worker.
///
/// The process has received the replicas in an attempt to take over that was ended by another
/// failure, or a dead process has left the replicas to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct KeptReplicas {
    /// Worker whose replacement the process was to be.
    pub own: Worker,
    /// True if the process has a complete replica of that worker.
    pub has_own: bool,
    /// Layers (`1 << layer`) in which the process has the replica that the worker stored.
    ///
    /// Counted at `epoch`.
    pub layers: u64,
    /// Epoch of the replicas, the last committed one.
    pub epoch: Epoch,
    /// Later epoch of which the process has replicas, too.
    ///
    /// The process that left the replicas died before it saw the commit of that epoch.
    pub whole: Option<Epoch>,
    /// Layers as in `layers`, at `whole`.
    pub whole_layers: u64,
    /// Process that has left the replicas, if they were left.
    pub process: Option<ProcessNumber>,
}

impl ProcessReport {
    /// True if this process stores the replica of a layer at this epoch.
    ///
    /// The caller checks that the process has replicas of the epoch.
    pub fn stores(&self, layer: usize, epoch: Epoch) -> bool {
        // A complete epoch contains every layer.
        epoch != self.committed || self.lacking & (1 << layer) == 0
    }
}

impl KeptReplicas {
    /// Returns the layers in which the process has the replica that the worker stored.
    pub fn layers_at(&self, epoch: Epoch) -> u64 {
        match epoch == self.epoch {
            true => self.layers,
            false if self.whole == Some(epoch) => self.whole_layers,
            false => 0,
        }
    }

    /// True if the replicas are of this epoch, or can be.
    pub fn reaches(&self, epoch: Epoch) -> bool {
        epoch != Epoch::NONE && (self.epoch == epoch || self.whole == Some(epoch))
    }
}
