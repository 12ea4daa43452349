//! Plan of a recovery, computed from the reports of the living processes.
//!
//! The plan assigns replacements to dead workers and determines the transfers of replicas.

#[cfg(test)]
mod recovery_plan_tests;

use crate::plan_input::PlanInput;
pub use crate::plan_input::RequestedSpare;
pub use crate::process_report::{DamagedReplica, KeptReplicas, ProcessReport};
use crate::redundancy::Redundancy;
use std::ffi::c_int;
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Reason why the program must end, and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub why: String,
    /// Exit status.
    pub status: c_int,
}

/// Replacement of a dead worker by a joining process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    pub worker: Worker,
    pub process: ProcessNumber,
    /// True if the process already has the worker's own replica.
    pub has_own: bool,
    /// Layers (1 << layer) in which it already has the replica that the worker stored.
    pub layers: u64,
}

/// Transfer of a worker's own replica, or of a part, from a buddy.
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
    /// The replica has a wrong checksum.
    Damaged,
}

/// Reason why the job cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanFailure {
    /// No process has a committed epoch.
    Init,
    /// No worker is left.
    Everyone,
    /// No replica of a worker is left.
    Copies {
        worker: Worker,
        /// True if the worker has died; otherwise its own replica is damaged.
        died: bool,
        /// Buddies of the worker, and the reason for each.
        buddies: Vec<(Worker, SourceFailure)>,
        epoch: Epoch,
    },
    /// A worker has neither committed the epoch nor complete replicas; this is impossible.
    Behind {
        worker: Worker,
        /// Epoch of the worker.
        at: Epoch,
        /// Epoch of the others.
        epoch: Epoch,
    },
    /// The program itself is the cause.
    Program(Verdict),
}

/// Computes the plan for `workers` workers; `redundancy` describes the placement of replicas.
pub fn make_plan(
    living: &[ProcessReport],
    redundancy: &Redundancy,
    workers: u32,
    hints: &[RequestedSpare],
) -> Result<Plan, PlanFailure> {
    let job = PlanInput {
        living,
        redundancy,
        workers,
        hints,
    };
    let (dead, joining) = (job.dead(), job.joining());
    if dead.len() as u32 == workers && job.inherited().next().is_none() {
        return Err(PlanFailure::Everyone);
    }
    let epoch = epoch(&job, &dead)?;
    let takeovers = assign(&dead, &joining, Some(epoch), job.hints);
    let fetches = fetches(&job, &takeovers, epoch)?;
    Ok(Plan {
        epoch,
        process_of: processes(&job, &takeovers),
        rebuilds: rebuilds(&job, &takeovers),
        takeovers,
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
    let job = PlanInput {
        living,
        redundancy,
        workers,
        hints,
    };
    let (dead, joining) = (job.dead(), job.joining());
    // Replicas in joining processes are of another epoch.
    let takeovers = assign(&dead, &joining, None, job.hints);
    Plan {
        epoch: Epoch::NONE,
        process_of: processes(&job, &takeovers),
        rebuilds: all_replicas(redundancy, workers),
        takeovers,
        fetches: Vec::new(),
        lost: Some(lost),
    }
}

/// Returns the process of each worker.
fn processes(job: &PlanInput, takeovers: &[Takeover]) -> Vec<ProcessNumber> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let processes =
        Worker::all(job.workers).map(|worker| match (taken(worker), job.process_of(worker)) {
            (Some(takeover), _) => takeover.process,
            (None, living) => living.map_or_else(ProcessNumber::default, |living| living.process),
        });
    processes.collect()
}

/// Selects the sources for each worker without a good replica of its own.
fn fetches(
    job: &PlanInput,
    takeovers: &[Takeover],
    epoch: Epoch,
) -> Result<Vec<ReplicaFetch>, PlanFailure> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let lacks_own = |worker: &Worker| match job.process_of(*worker) {
        Some(living) => job.is_damaged(*worker, living.process),
        None => !taken(*worker).is_some_and(|takeover| takeover.has_own),
    };
    let mut fetches = Vec::new();
    for worker in Worker::all(job.workers).filter(lacks_own) {
        let (mut good, mut gone) = (Vec::new(), Vec::new());
        for (layer, buddy) in job.redundancy.buddies_of(worker).enumerate() {
            match failure_of(job, taken(buddy), worker, (layer, buddy)) {
                None => good.push(ReplicaFetch {
                    worker,
                    from: buddy,
                }),
                Some(why) => gone.push((buddy, why)),
            }
        }
        let is_lost = match job.redundancy.is_parity() {
            true => !gone.is_empty(),
            false => good.is_empty(),
        };
        if is_lost {
            return Err(PlanFailure::Copies {
                worker,
                died: job.process_of(worker).is_none(),
                buddies: gone,
                epoch,
            });
        }
        if !job.redundancy.is_parity() {
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
    job: &PlanInput,
    successor: Option<&Takeover>,
    worker: Worker,
    (layer, buddy): (usize, Worker),
) -> Option<SourceFailure> {
    // With parity, the buddy also contributes its own pages.
    let (is_parity, all) = (
        job.redundancy.is_parity(),
        (1 << job.redundancy.layers(buddy)) - 1,
    );
    let has_it = |takeover: &&Takeover| match is_parity {
        true => takeover.has_own && takeover.layers == all,
        false => takeover.layers & (1 << layer) != 0,
    };
    let successor = successor.filter(has_it).map(|takeover| takeover.process);
    let living = job.process_of(buddy).map(|living| living.process);
    let Some(process) = living.or(successor) else {
        return Some(SourceFailure::Dead);
    };
    let is_damaged =
        job.is_damaged(worker, process) || (is_parity && job.is_damaged(buddy, process));
    is_damaged.then_some(SourceFailure::Damaged)
}

/// Returns the replicas to rebuild.
fn rebuilds(job: &PlanInput, takeovers: &[Takeover]) -> Vec<ReplicaRebuild> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let is_gone = |copy: &ReplicaRebuild| match job.process_of(copy.at) {
        Some(living) => job.is_damaged(copy.worker, living.process),
        None => taken(copy.at).is_none_or(|takeover| takeover.layers & (1 << copy.layer) == 0),
    };
    let mut all = all_replicas(job.redundancy, job.workers);
    // Parity is computed from the contributions of all its workers.
    let lost: Vec<Worker> = all
        .iter()
        .filter(|it| is_gone(it))
        .map(|it| it.at)
        .collect();
    all.retain(|copy| is_gone(copy) || job.redundancy.is_parity() && lost.contains(&copy.at));
    all
}

/// Lists all replicas for a rebuild, after a return to an epoch on disk.
pub fn all_replicas(redundancy: &Redundancy, workers: u32) -> Vec<ReplicaRebuild> {
    let of = |worker: Worker| {
        let buddies = redundancy.buddies_of(worker).enumerate();
        buddies.map(move |(layer, at)| ReplicaRebuild { worker, layer, at })
    };
    Worker::all(workers).flat_map(of).collect()
}

/// Selects the epoch to which all workers return.
///
/// Returns the last epoch that any process has committed. Returns the next epoch instead if all
/// living workers have complete replicas of it, including those of dead workers, because the dead
/// may have committed it. If none of the dead can have committed it, the epoch with the lower cost
/// is selected.
fn epoch(job: &PlanInput, dead: &[Worker]) -> Result<Epoch, PlanFailure> {
    let workers = || {
        job.living
            .iter()
            .filter(|identity| identity.worker.is_some())
    };
    let can_reach = |identity: &ProcessReport, epoch| {
        identity.committed == epoch || identity.complete == Some(epoch)
    };
    let committed = workers().map(|identity| identity.committed);
    let committed = committed
        .chain(job.inherited().map(|held| held.epoch))
        .max()
        .unwrap_or_default();
    let whole = workers().filter_map(|identity| identity.complete);
    let whole = whole
        .chain(job.inherited().filter_map(|held| held.whole))
        .max()
        .unwrap_or_default();
    let all_reach_it = || workers().all(|identity| can_reach(identity, whole));
    if whole > committed
        && all_reach_it()
        && dead.iter().all(|&worker| job.is_kept(worker, whole))
        && !costs_more(job, dead, committed)
    {
        return Ok(whole);
    }
    if committed == Epoch::NONE {
        return Err(PlanFailure::Init);
    }
    let behind = workers().find(|identity| !can_reach(identity, committed));
    match behind.and_then(|identity| Some((identity.worker?, identity.committed))) {
        None => Ok(committed),
        Some((worker, at)) => Err(PlanFailure::Behind {
            worker,
            at,
            epoch: committed,
        }),
    }
}

/// True if the epoch after `committed` costs more than `committed`.
///
/// The dead processes have left replicas of `committed`, but not of the later epoch. The latter
/// would have to be sent, which can take longer than repeating the work between both. If a living
/// process is reduced, it may even need a replica that such a dead process has stored, and the job
/// would be lost.
///
/// A process records its replica before it enters the vote that commits the epoch. So no process
/// can have committed the later one.
fn costs_more(job: &PlanInput, dead: &[Worker], committed: Epoch) -> bool {
    let left = |worker: &Worker| {
        let is_its = |held: &&KeptReplicas| held.own == *worker && held.process.is_some();
        job.inherited()
            .find(is_its)
            .filter(|held| held.epoch == committed)
    };
    let left: Vec<Option<&KeptReplicas>> = dead.iter().map(left).collect();
    if committed == Epoch::NONE || !left.iter().flatten().any(|held| held.whole.is_none()) {
        return false;
    }
    let most = |of: fn(&ProcessReport) -> u64| job.living.iter().map(of).max().unwrap_or(0);
    job.living.iter().any(|living| living.is_reduced)
        || left
            .iter()
            .all(|left| left.is_some_and(|held| held.has_own))
            && most(|living| living.lost_ns) < most(|living| living.fetch_ns)
}

/// Assigns a joining process to each dead worker.
///
/// First choice is a process that has the worker's replica already, then a free one named by a
/// hint, then the lowest free one. A process with the replica of a dead worker is not free.
fn assign(
    dead: &[Worker],
    joining: &[&ProcessReport],
    epoch: Option<Epoch>,
    hints: &[RequestedSpare],
) -> Vec<Takeover> {
    assert!(
        dead.len() <= joining.len(),
        "the process manager has sent too few"
    );
    let held = |candidate: &ProcessReport, worker: Worker| {
        let held = candidate.kept.filter(|held| held.own == worker);
        held.filter(|held| epoch.is_some_and(|epoch| held.reaches(epoch)))
    };
    let mut free: Vec<&ProcessReport> = joining.to_vec();
    let mut chosen: Vec<Option<&ProcessReport>> = Vec::new();
    for &worker in dead {
        let at = free
            .iter()
            .position(|candidate| held(candidate, worker).is_some());
        chosen.push(at.map(|at| free.remove(at)));
    }
    for (&worker, chosen) in dead
        .iter()
        .zip(&mut chosen)
        .filter(|(_, chosen)| chosen.is_none())
    {
        let hint = hints.iter().find(|hint| hint.worker == worker);
        let at = hint.and_then(|hint| {
            free.iter()
                .position(|candidate| candidate.process == hint.spare)
        });
        *chosen = at.map(|at| free.remove(at));
    }
    let mut free = free.into_iter();
    let takeovers = dead.iter().zip(chosen).filter_map(|(&worker, chosen)| {
        let candidate = chosen.or_else(|| free.next())?;
        let held = held(candidate, worker);
        Some(Takeover {
            worker,
            process: candidate.process,
            has_own: held.is_some_and(|held| held.has_own),
            layers: held.map_or(0, |held| held.layers),
        })
    });
    takeovers.collect()
}
