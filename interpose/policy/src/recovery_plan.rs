//! Plan of a recovery, computed from the reports of the living processes.
//!
//! The plan assigns replacements to dead workers and determines the transfers of replicas.

use crate::redundancy::Redundancy;
use bincode::{Decode, Encode};
use std::ffi::c_int;
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Reason why the program must end, and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub why: String,
    /// Exit status.
    pub status: c_int,
}

/// Report of a living process about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Identity {
    pub process: ProcessNumber,
    /// Worker that the process runs; `None` for a joining process.
    pub part: Option<Worker>,
    /// Last epoch that the process has committed.
    pub committed: Epoch,
    /// Epoch whose replicas here are complete, but whose commit the process has not seen.
    pub whole: Option<Epoch>,
    /// Lost work in nanoseconds if all return to `committed` instead of `whole`.
    pub lost_ns: u64,
    /// Duration of sending a whole replica in nanoseconds; 0 if unknown.
    pub fetch_ns: u64,
    /// True if its own replicas are reduced.
    ///
    /// It may need those that a dead process has left.
    pub is_thin: bool,
    /// True if the process has requested spares from the daemon (`wishes`).
    pub has_asked: bool,
    /// Replicas in a joining process.
    pub held: Option<Held>,
    /// Replicas that the process has found damaged in this recovery.
    pub refused: Vec<Refused>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Refused {
    /// Worker whose replica it is.
    pub worker: Worker,
    /// Process that stores the replica.
    pub at: ProcessNumber,
}

/// Replicas of an epoch in a joining process, equivalent to those of a worker.
///
/// The process has received them in an attempt to take over that was ended by another failure, or a
/// dead process has left them to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Held {
    /// Worker whose replacement the process was to be.
    pub own: Worker,
    /// True if the process has a complete replica of that worker.
    pub has_own: bool,
    /// Layers (1 << layer) in which it has the replica that the worker stored.
    pub layers: u64,
    /// Epoch of the replicas, the last committed one.
    pub epoch: Epoch,
    /// Later epoch of which it has replicas, too.
    ///
    /// Their process died before it saw the commit of that epoch.
    pub whole: Option<Epoch>,
    /// Process that has left the replicas, if they were left.
    pub player: Option<ProcessNumber>,
}

impl Held {
    /// True if the replicas are of this epoch, or can be.
    pub fn reaches(&self, epoch: Epoch) -> bool {
        epoch != Epoch::NONE && (self.epoch == epoch || self.whole == Some(epoch))
    }
}

/// Hint that this spare should replace this worker; used if possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    pub worker: Worker,
    pub spare: ProcessNumber,
}

/// Replacement of a dead worker by a joining process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    pub worker: Worker,
    pub player: ProcessNumber,
    /// True if the process already has the worker's own replica.
    pub has_own: bool,
    /// Layers (1 << layer) in which it already has the replica that the worker stored.
    pub layers: u64,
}

/// Transfer of a worker's own replica, or of a part, from a buddy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub worker: Worker,
    pub from: Worker,
}

/// Rebuild of a worker's replica at its buddy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remake {
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
    pub players: Vec<ProcessNumber>,
    /// Transfers to workers without a good replica of their own.
    pub fetches: Vec<Fetch>,
    /// Rebuilds of replicas that died with their buddies or are damaged.
    pub remakes: Vec<Remake>,
    /// Loss of replicas that makes all workers return to an epoch on disk.
    pub lost: Option<Lost>,
}

impl Plan {
    /// Returns the worker that this process runs.
    pub fn part_of(&self, process: ProcessNumber) -> Option<Worker> {
        let at = self.players.iter().position(|&player| player == process);
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
    /// This is the buddy, or, with parity, all other members of the group, by layer.
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
pub enum Gone {
    /// The buddy has died.
    Dead,
    /// The replica has a wrong checksum.
    Damaged,
}

/// Reason why the job cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
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
        holders: Vec<(Worker, Gone)>,
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

/// Reports of the living processes, as the input of a plan.
struct Job<'a> {
    living: &'a [Identity],
    redundancy: &'a Redundancy,
    workers: u32,
    wishes: &'a [Wish],
}

impl Job<'_> {
    fn player(&self, worker: Worker) -> Option<&Identity> {
        self.living
            .iter()
            .find(|identity| identity.part == Some(worker))
    }

    fn dead(&self) -> Vec<Worker> {
        Worker::all(self.workers)
            .filter(|&worker| self.player(worker).is_none())
            .collect()
    }

    fn newcomers(&self) -> Vec<&Identity> {
        self.living
            .iter()
            .filter(|identity| identity.part.is_none())
            .collect()
    }

    /// Iterates over joining processes that have the replicas of a dead worker.
    fn heirs(&self) -> impl Iterator<Item = &Held> {
        let newcomers = self
            .living
            .iter()
            .filter(|identity| identity.part.is_none());
        let held = newcomers.filter_map(|newcomer| newcomer.held.as_ref());
        held.filter(|held| self.player(held.own).is_none())
    }

    /// Returns the replicas of this epoch that this dead worker has left.
    fn heir(&self, worker: Worker, epoch: Epoch) -> Option<&Held> {
        self.heirs()
            .find(|held| held.own == worker && held.reaches(epoch))
    }

    /// True if a replica of a dead worker exists.
    ///
    /// The caller checks that all living workers have this epoch.
    fn is_kept(&self, worker: Worker, epoch: Epoch) -> bool {
        let lives =
            |holder: Worker| self.player(holder).is_some() || self.heir(holder, epoch).is_some();
        let mut live = self.redundancy.holders_of(worker).map(lives);
        let is_held = match self.redundancy.is_parity() {
            true => live.all(|lives| lives),
            false => live.any(|lives| lives),
        };
        is_held || self.heir(worker, epoch).is_some_and(|held| held.has_own)
    }

    /// True if this process stores a replica of the worker that was found damaged.
    fn is_refused(&self, worker: Worker, process: ProcessNumber) -> bool {
        let copy = Refused {
            worker,
            at: process,
        };
        self.living
            .iter()
            .any(|identity| identity.refused.contains(&copy))
    }
}

/// Computes the plan for `workers` workers; `redundancy` describes the placement of replicas.
pub fn make(
    living: &[Identity],
    redundancy: &Redundancy,
    workers: u32,
    wishes: &[Wish],
) -> Result<Plan, Lost> {
    let job = Job {
        living,
        redundancy,
        workers,
        wishes,
    };
    let (dead, newcomers) = (job.dead(), job.newcomers());
    if dead.len() as u32 == workers && job.heirs().next().is_none() {
        return Err(Lost::Everyone);
    }
    let epoch = epoch(&job, &dead)?;
    let takeovers = assign(&dead, &newcomers, Some(epoch), job.wishes);
    let fetches = fetches(&job, &takeovers, epoch)?;
    Ok(Plan {
        epoch,
        players: players(&job, &takeovers),
        remakes: remakes(&job, &takeovers),
        takeovers,
        fetches,
        lost: None,
    })
}

/// Computes the plan for a return to an epoch on disk, which is chosen later.
///
/// `lost` is the loss of replicas in memory that makes it necessary.
pub fn from_disk(
    living: &[Identity],
    redundancy: &Redundancy,
    workers: u32,
    wishes: &[Wish],
    lost: Lost,
) -> Plan {
    let job = Job {
        living,
        redundancy,
        workers,
        wishes,
    };
    let (dead, newcomers) = (job.dead(), job.newcomers());
    // Replicas in joining processes are of another epoch.
    let takeovers = assign(&dead, &newcomers, None, job.wishes);
    Plan {
        epoch: Epoch::NONE,
        players: players(&job, &takeovers),
        remakes: every_copy(redundancy, workers),
        takeovers,
        fetches: Vec::new(),
        lost: Some(lost),
    }
}

/// Returns the process of each worker.
fn players(job: &Job, takeovers: &[Takeover]) -> Vec<ProcessNumber> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let players =
        Worker::all(job.workers).map(|worker| match (taken(worker), job.player(worker)) {
            (Some(takeover), _) => takeover.player,
            (None, living) => living.map_or_else(ProcessNumber::default, |living| living.process),
        });
    players.collect()
}

/// Selects the sources for each worker without a good replica of its own.
fn fetches(job: &Job, takeovers: &[Takeover], epoch: Epoch) -> Result<Vec<Fetch>, Lost> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let lacks_own = |worker: &Worker| match job.player(*worker) {
        Some(player) => job.is_refused(*worker, player.process),
        None => !taken(*worker).is_some_and(|takeover| takeover.has_own),
    };
    let mut fetches = Vec::new();
    for worker in Worker::all(job.workers).filter(lacks_own) {
        let (mut good, mut gone) = (Vec::new(), Vec::new());
        for (layer, holder) in job.redundancy.holders_of(worker).enumerate() {
            match state_of(job, taken(holder), worker, (layer, holder)) {
                None => good.push(Fetch {
                    worker,
                    from: holder,
                }),
                Some(why) => gone.push((holder, why)),
            }
        }
        let is_lost = match job.redundancy.is_parity() {
            true => !gone.is_empty(),
            false => good.is_empty(),
        };
        if is_lost {
            return Err(Lost::Copies {
                worker,
                died: job.player(worker).is_none(),
                holders: gone,
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
fn state_of(
    job: &Job,
    successor: Option<&Takeover>,
    worker: Worker,
    (layer, holder): (usize, Worker),
) -> Option<Gone> {
    // With parity, the buddy also contributes its own pages.
    let (is_parity, all) = (
        job.redundancy.is_parity(),
        (1 << job.redundancy.layers(holder)) - 1,
    );
    let has_it = |takeover: &&Takeover| match is_parity {
        true => takeover.has_own && takeover.layers == all,
        false => takeover.layers & (1 << layer) != 0,
    };
    let successor = successor.filter(has_it).map(|takeover| takeover.player);
    let living = job.player(holder).map(|player| player.process);
    let Some(player) = living.or(successor) else {
        return Some(Gone::Dead);
    };
    let is_damaged =
        job.is_refused(worker, player) || (is_parity && job.is_refused(holder, player));
    is_damaged.then_some(Gone::Damaged)
}

/// Returns the replicas to rebuild.
fn remakes(job: &Job, takeovers: &[Takeover]) -> Vec<Remake> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let is_gone = |copy: &Remake| match job.player(copy.at) {
        Some(player) => job.is_refused(copy.worker, player.process),
        None => taken(copy.at).is_none_or(|takeover| takeover.layers & (1 << copy.layer) == 0),
    };
    let mut all = every_copy(job.redundancy, job.workers);
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
pub fn every_copy(redundancy: &Redundancy, workers: u32) -> Vec<Remake> {
    let of = |worker: Worker| {
        let holders = redundancy.holders_of(worker).enumerate();
        holders.map(move |(layer, at)| Remake { worker, layer, at })
    };
    Worker::all(workers).flat_map(of).collect()
}

/// Selects the epoch to which all workers return.
///
/// This is the last epoch that any process has committed. If all living workers have complete
/// replicas of the next epoch, including those of dead workers, it is that one, because the dead
/// may have committed it. If none of the dead can have committed it, the epoch with the lower cost
/// is selected.
fn epoch(job: &Job, dead: &[Worker]) -> Result<Epoch, Lost> {
    let workers = || job.living.iter().filter(|identity| identity.part.is_some());
    let can_reach =
        |identity: &Identity, epoch| identity.committed == epoch || identity.whole == Some(epoch);
    let committed = workers().map(|identity| identity.committed);
    let committed = committed
        .chain(job.heirs().map(|held| held.epoch))
        .max()
        .unwrap_or_default();
    let whole = workers().filter_map(|identity| identity.whole);
    let whole = whole
        .chain(job.heirs().filter_map(|held| held.whole))
        .max()
        .unwrap_or_default();
    let all_reach_it = || workers().all(|identity| can_reach(identity, whole));
    if whole > committed
        && all_reach_it()
        && dead.iter().all(|&worker| job.is_kept(worker, whole))
        && !is_dearer(job, dead, committed)
    {
        return Ok(whole);
    }
    if committed == Epoch::NONE {
        return Err(Lost::Init);
    }
    let behind = workers().find(|identity| !can_reach(identity, committed));
    match behind.and_then(|identity| Some((identity.part?, identity.committed))) {
        None => Ok(committed),
        Some((worker, at)) => Err(Lost::Behind {
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
fn is_dearer(job: &Job, dead: &[Worker], committed: Epoch) -> bool {
    let left = |worker: &Worker| {
        let is_its = |held: &&Held| held.own == *worker && held.player.is_some();
        job.heirs()
            .find(is_its)
            .filter(|held| held.epoch == committed)
    };
    let left: Vec<Option<&Held>> = dead.iter().map(left).collect();
    if committed == Epoch::NONE || !left.iter().flatten().any(|held| held.whole.is_none()) {
        return false;
    }
    let most = |of: fn(&Identity) -> u64| job.living.iter().map(of).max().unwrap_or(0);
    job.living.iter().any(|living| living.is_thin)
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
    newcomers: &[&Identity],
    epoch: Option<Epoch>,
    wishes: &[Wish],
) -> Vec<Takeover> {
    assert!(
        dead.len() <= newcomers.len(),
        "the process manager has sent too few"
    );
    let held = |newcomer: &Identity, worker: Worker| {
        let held = newcomer.held.filter(|held| held.own == worker);
        held.filter(|held| epoch.is_some_and(|epoch| held.reaches(epoch)))
    };
    let mut free: Vec<&Identity> = newcomers.to_vec();
    let mut chosen: Vec<Option<&Identity>> = Vec::new();
    for &worker in dead {
        let at = free
            .iter()
            .position(|newcomer| held(newcomer, worker).is_some());
        chosen.push(at.map(|at| free.remove(at)));
    }
    for (&worker, chosen) in dead
        .iter()
        .zip(&mut chosen)
        .filter(|(_, chosen)| chosen.is_none())
    {
        let wish = wishes.iter().find(|wish| wish.worker == worker);
        let at = wish.and_then(|wish| {
            free.iter()
                .position(|newcomer| newcomer.process == wish.spare)
        });
        *chosen = at.map(|at| free.remove(at));
    }
    let mut free = free.into_iter();
    let takeovers = dead.iter().zip(chosen).filter_map(|(&worker, chosen)| {
        let newcomer = chosen.or_else(|| free.next())?;
        let held = held(newcomer, worker);
        Some(Takeover {
            worker,
            player: newcomer.process,
            has_own: held.is_some_and(|held| held.has_own),
            layers: held.map_or(0, |held| held.layers),
        })
    });
    takeovers.collect()
}

#[cfg(test)]
#[path = "recovery_plan_tests.rs"]
mod tests;
