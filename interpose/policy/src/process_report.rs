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
    /// True if the process has requested spares from the daemon (`hints`).
    pub has_requested_spares: bool,
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
    pub layers: u64,
    /// Epoch of the replicas, the last committed one.
    pub epoch: Epoch,
    /// Later epoch of which the process has replicas, too.
    ///
    /// The process that left the replicas died before it saw the commit of that epoch.
    pub whole: Option<Epoch>,
    /// Process that has left the replicas, if they were left.
    pub process: Option<ProcessNumber>,
}

impl KeptReplicas {
    /// True if the replicas are of this epoch, or can be.
    pub fn reaches(&self, epoch: Epoch) -> bool {
        epoch != Epoch::NONE && (self.epoch == epoch || self.whole == Some(epoch))
    }
}
