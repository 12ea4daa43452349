//! Plan of a recovery, computed from the reports of the living processes.
//!
//! The plan assigns replacements to dead workers and determines the transfers of replicas.

#[cfg(test)]
mod recovery_plan_tests;

use crate::plan_input::PlanInput;
pub use crate::plan_input::RequestedSpare;
pub use crate::process_report::{DamagedReplica, KeptReplicas, ProcessReport};
use crate::redundancy::Redundancy;
pub use crate::takeovers::Takeover;
use crate::takeovers::Takeovers;
use std::ffi::c_int;
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Reason why the program must end, and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub why: String,
    /// Exit status.
    pub status: c_int,
}

/// Transfer of a worker's own replica from a buddy; with parity, of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaFetch {
    pub worker: Worker,
    pub from: Worker,
}

/// Rebuild of a worker's replica at its buddy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRebuild {
    pub worker: Worker,
    pub layer: usize,
    pub at: Worker,
}

/// Plan of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Epoch to which all workers return.
    pub epoch: Epoch,
    /// Replacements of dead workers, in ascending order.
    pub takeovers: Vec<Takeover>,
    /// Process of each worker, including replacements.
    pub process_of: Vec<ProcessNumber>,
    /// Transfers to workers without a good replica of their own.
    pub fetches: Vec<ReplicaFetch>,
    /// Rebuilds of replicas that died with their buddies or are damaged.
    pub rebuilds: Vec<ReplicaRebuild>,
    /// Rebuilds by the next checkpoint, after the program has resumed.
    ///
    /// The worker sends its whole memory then. Until the commit of that checkpoint the buddy has
    /// no replica of the worker.
    pub deferred: Vec<ReplicaRebuild>,
    /// Loss of replicas that makes all workers return to an epoch on disk.
    pub lost: Option<PlanFailure>,
}

impl Plan {
    /// Returns the worker that this process runs.
    pub fn worker_of(&self, process: ProcessNumber) -> Option<Worker> {
        let at = self
            .process_of
            .iter()
            .position(|&current| current == process);
        at.map(Worker::at)
    }

    /// Returns the replacement of this worker, if there is a new one.
    pub fn takeover(&self, worker: Worker) -> Option<&Takeover> {
        self.takeovers
            .iter()
            .find(|takeover| takeover.worker == worker)
    }

    /// Returns the workers that send this worker its own replica, if it has none.
    ///
    /// Yields the buddy, or, with parity, all other members of the group, by layer.
    pub fn sources(&self, worker: Worker) -> impl Iterator<Item = Worker> {
        let fetches = self
            .fetches
            .iter()
            .filter(move |fetch| fetch.worker == worker);
        fetches.map(|fetch| fetch.from)
    }

    /// Returns the first source.
    pub fn source(&self, worker: Worker) -> Option<Worker> {
        self.sources(worker).next()
    }
}

/// Reason why a buddy cannot provide a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFailure {
    /// The buddy has died.
    Dead,
    /// The buddy has replaced a dead process, and the next checkpoint brings its replica.
    Deferred,
    /// The replica has a wrong checksum.
    Damaged,
}

/// Reason why the job cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanFailure {
    /// No process has a committed epoch.
    Init,
    /// No worker's process is left, and no process has a worker's replicas.
    Everyone,
    /// A worker's replica is lost.
    Copies {
        worker: Worker,
        /// True if the worker has died; otherwise its own replica is damaged.
        died: bool,
        /// Buddies that cannot provide their data of the worker, and the reason for each.
        buddies: Vec<(Worker, SourceFailure)>,
        epoch: Epoch,
    },
    /// A worker has neither committed the epoch nor complete replicas; this is impossible.
    Behind {
        worker: Worker,
        /// Epoch of the worker.
        at: Epoch,
        /// Last epoch that a process has committed.
        epoch: Epoch,
    },
    /// The program itself is the cause.
    Program(Verdict),
}

impl PlanFailure {
    /// True if replicas in memory are missing, which a checkpoint on disk can replace.
    pub fn is_loss_of_replicas(&self) -> bool {
        matches!(
            self,
            PlanFailure::Copies { .. } | PlanFailure::Behind { .. } | PlanFailure::Everyone
        )
    }
}

/// Computes the plan for `workers` workers; `redundancy` describes the placement of replicas.
pub fn make_plan(
    living: &[ProcessReport],
    redundancy: &Redundancy,
    workers: u32,
    hints: &[RequestedSpare],
) -> Result<Plan, PlanFailure> {
    let input = PlanInput::new(living, redundancy, workers, hints);
    let dead = input.dead();
    if dead.len() as u32 == workers && input.inherited().next().is_none() {
        return Err(PlanFailure::Everyone);
    }
    let mut candidates = candidate_epochs(&input, &dead)?.into_iter();
    let first = candidates.next().unwrap_or_default();
    let plan = plan_for_epoch(&input, &dead, first);
    match candidates.next() {
        Some(older) if plan.is_err() => plan_for_epoch(&input, &dead, older).or(plan),
        _ => plan,
    }
}

/// Computes the plan for a return to this epoch.
fn plan_for_epoch(input: &PlanInput, dead: &[Worker], epoch: Epoch) -> Result<Plan, PlanFailure> {
    let takeovers = Takeovers::assign(input, dead, Some(epoch));
    let fetches = fetches(input, &takeovers, epoch)?;
    let (rebuilds, deferred) = rebuilds(input, &takeovers, epoch);
    Ok(Plan {
        epoch,
        process_of: processes(input, &takeovers),
        rebuilds,
        deferred,
        takeovers: takeovers.into_list(),
        fetches,
        lost: None,
    })
}

/// Computes the plan for a return to an epoch on disk, which is chosen later.
///
/// `lost` is the loss of replicas in memory that makes it necessary.
pub fn make_plan_from_disk(
    living: &[ProcessReport],
    redundancy: &Redundancy,
    workers: u32,
    hints: &[RequestedSpare],
    lost: PlanFailure,
) -> Plan {
    let input = PlanInput::new(living, redundancy, workers, hints);
    // Replicas in joining processes are of another epoch.
    let takeovers = Takeovers::assign(&input, &input.dead(), None);
    Plan {
        epoch: Epoch::NONE,
        process_of: processes(&input, &takeovers),
        rebuilds: all_replicas(redundancy, workers),
        deferred: Vec::new(),
        takeovers: takeovers.into_list(),
        fetches: Vec::new(),
        lost: Some(lost),
    }
}

/// Returns the process of each worker.
fn processes(input: &PlanInput, takeovers: &Takeovers) -> Vec<ProcessNumber> {
    let process_of = |worker| match (takeovers.get(worker), input.report_of(worker)) {
        (Some(takeover), _) => takeover.process,
        (None, report) => report.map_or_else(ProcessNumber::default, |report| report.process),
    };
    input.workers().map(process_of).collect()
}

/// Selects the sources for each worker without a good replica of its own.
fn fetches(
    input: &PlanInput,
    takeovers: &Takeovers,
    epoch: Epoch,
) -> Result<Vec<ReplicaFetch>, PlanFailure> {
    let lacks_own = |worker: &Worker| match input.report_of(*worker) {
        Some(living) => input.is_damaged(*worker, living.process),
        None => !takeovers
            .get(*worker)
            .is_some_and(|takeover| takeover.has_own),
    };
    let mut fetches = Vec::new();
    for worker in input.workers().filter(lacks_own) {
        let (mut good, mut gone) = (Vec::new(), Vec::new());
        for (layer, buddy) in input.redundancy.buddies_of(worker).enumerate() {
            match failure_of(input, takeovers.get(buddy), (worker, epoch), (layer, buddy)) {
                None => good.push(ReplicaFetch {
                    worker,
                    from: buddy,
                }),
                Some(why) => gone.push((buddy, why)),
            }
        }
        let is_lost = match input.redundancy.is_parity() {
            true => !gone.is_empty(),
            false => good.is_empty(),
        };
        if is_lost {
            return Err(PlanFailure::Copies {
                worker,
                died: input.report_of(worker).is_none(),
                buddies: gone,
                epoch,
            });
        }
        if !input.redundancy.is_parity() {
            good.truncate(1);
        }
        fetches.extend(good);
    }
    Ok(fetches)
}

/// Returns the reason if a buddy cannot provide its data of a worker.
///
/// `successor` is the buddy's replacement if the buddy has died.
fn failure_of(
    input: &PlanInput,
    successor: Option<&Takeover>,
    (worker, epoch): (Worker, Epoch),
    (layer, buddy): (usize, Worker),
) -> Option<SourceFailure> {
    // With parity, the buddy also contributes its own pages.
    let (is_parity, all) = (
        input.redundancy.is_parity(),
        input.redundancy.all_layers(buddy),
    );
    let has_it = |takeover: &&Takeover| match is_parity {
        true => takeover.has_own && takeover.layers == all,
        false => takeover.layers & (1 << layer) != 0,
    };
    let successor = successor.filter(has_it).map(|takeover| takeover.process);
    let living = input.report_of(buddy);
    if living.is_some_and(|living| !living.stores(layer, epoch)) {
        return Some(SourceFailure::Deferred);
    }
    let Some(process) = living.map(|living| living.process).or(successor) else {
        return Some(SourceFailure::Dead);
    };
    let is_damaged =
        input.is_damaged(worker, process) || (is_parity && input.is_damaged(buddy, process));
    is_damaged.then_some(SourceFailure::Damaged)
}

/// Returns the replicas to rebuild, and those that the next checkpoint rebuilds.
///
/// Damaged replicas are rebuilt at once.
fn rebuilds(
    input: &PlanInput,
    takeovers: &Takeovers,
    epoch: Epoch,
) -> (Vec<ReplicaRebuild>, Vec<ReplicaRebuild>) {
    let holder = |copy: &ReplicaRebuild| match (input.report_of(copy.at), takeovers.get(copy.at)) {
        (Some(report), _) => Some((report.process, report.stores(copy.layer, epoch))),
        (None, Some(takeover)) => {
            let has_it = takeover.layers & (1 << copy.layer) != 0;
            Some((takeover.process, has_it))
        }
        (None, None) => None,
    };
    let is_damaged = |copy: &ReplicaRebuild| {
        holder(copy).is_some_and(|(process, _)| input.is_damaged(copy.worker, process))
    };
    let is_gone =
        |copy: &ReplicaRebuild| holder(copy).is_none_or(|(_, has_it)| !has_it) || is_damaged(copy);
    let mut all = all_replicas(input.redundancy, input.workers().len() as u32);
    // Lost parity is computed anew from the pages of all workers that it covers.
    let mut is_lost_at = vec![false; input.workers().len()];
    for copy in all.iter().filter(|copy| is_gone(copy)) {
        is_lost_at[copy.at.index()] = true;
    }
    let is_parity = input.redundancy.is_parity();
    all.retain(|copy| is_gone(copy) || is_parity && is_lost_at[copy.at.index()]);
    let can_defer = input.can_defer_replicas();
    all.into_iter()
        .partition(|copy| !can_defer || is_damaged(copy))
}

/// Lists the rebuilds of all replicas.
pub fn all_replicas(redundancy: &Redundancy, workers: u32) -> Vec<ReplicaRebuild> {
    let rebuilds_of = |worker: Worker| {
        let buddies = redundancy.buddies_of(worker).enumerate();
        buddies.map(move |(layer, at)| ReplicaRebuild { worker, layer, at })
    };
    Worker::all(workers).flat_map(rebuilds_of).collect()
}

/// Returns the epochs to which all workers may return, the best one first.
///
/// The best one is usually the last epoch that any process has committed. If complete replicas of
/// the next epoch exist for all workers, living and dead, the best one is the next epoch, because a
/// dead worker may have committed the next epoch. If no dead worker can have committed it, the
/// epoch with the lower cost is the best.
///
/// The previous epoch is another candidate if only dead processes have committed the last one:
/// every living worker still has the previous epoch, and undo logs reach back to it. The previous
/// epoch is the only candidate once a living worker has discarded the last epoch.
fn candidate_epochs(input: &PlanInput, dead: &[Worker]) -> Result<Vec<Epoch>, PlanFailure> {
    let workers = || input.living.iter().filter(|report| report.worker.is_some());
    let can_reach =
        |report: &ProcessReport, epoch| report.committed == epoch || report.complete == Some(epoch);
    let by_workers = workers().map(|report| report.committed);
    let committed = by_workers
        .clone()
        .chain(input.inherited().map(|kept| kept.epoch))
        .max()
        .unwrap_or_default();
    let complete = workers()
        .filter_map(|report| report.complete)
        .chain(input.inherited().filter_map(|kept| kept.whole))
        .max()
        .unwrap_or_default();
    let all_reach_it = || workers().all(|report| can_reach(report, complete));
    if complete > committed
        && all_reach_it()
        && dead.iter().all(|&worker| input.is_kept(worker, complete))
        && !costs_more(input, dead, committed)
    {
        return Ok(vec![complete]);
    }
    if committed == Epoch::NONE {
        return Err(PlanFailure::Init);
    }
    let older = by_workers.max().filter(|&epoch| epoch < committed);
    let older = older.filter(|&epoch| epoch != Epoch::NONE);
    let behind = |epoch| workers().find(move |report| !can_reach(report, epoch));
    if let Some(report) = behind(committed) {
        // A commit needs complete replicas of all workers. So this worker has discarded them, as
        // an earlier attempt has selected the older epoch.
        if let Some(older) = older.filter(|&epoch| behind(epoch).is_none()) {
            return Ok(vec![older]);
        }
        return Err(PlanFailure::Behind {
            worker: report.worker.unwrap_or_default(),
            at: report.committed,
            epoch: committed,
        });
    }
    Ok([committed].into_iter().chain(older).collect())
}

/// True if the epoch after `committed` costs more than `committed`.
///
/// Returns false unless a dead process has left replicas of `committed`, but not of the later
/// epoch. Replicas of the later epoch would have to be sent, which can take longer than repeating
/// the work between the two epochs. A living process whose replicas are reduced may even need a
/// later replica that the dead process would have stored, and the job would be lost.
///
/// A process records its replicas before it enters the vote that commits their epoch. So the dead
/// process has not voted, and no process can have committed the later epoch.
fn costs_more(input: &PlanInput, dead: &[Worker], committed: Epoch) -> bool {
    let left = |worker: &Worker| {
        input
            .inherited_from(*worker)
            .find(|kept| kept.process.is_some())
            .filter(|kept| kept.epoch == committed)
    };
    let left: Vec<Option<&KeptReplicas>> = dead.iter().map(left).collect();
    if committed == Epoch::NONE || !left.iter().flatten().any(|kept| kept.whole.is_none()) {
        return false;
    }
    let most = |ns: fn(&ProcessReport) -> u64| input.living.iter().map(ns).max().unwrap_or(0);
    input.living.iter().any(|living| living.is_reduced)
        || left
            .iter()
            .all(|left| left.is_some_and(|kept| kept.has_own))
            && most(|living| living.lost_ns) < most(|living| living.fetch_ns)
}
