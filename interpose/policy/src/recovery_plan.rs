//! Who takes which part, and which copies go where: a pure function of what the living processes
//! say of themselves.

use crate::redundancy::Redundancy;
use bincode::{Decode, Encode};
use std::ffi::c_int;
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Why the program cannot go on, and with which status it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub why: String,
    /// Exit status.
    pub status: c_int,
}

/// What a living process says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Identity {
    pub process: ProcessNumber,
    /// The worker that it plays; a newcomer plays none.
    pub part: Option<Worker>,
    /// Last epoch that it has committed.
    pub committed: Epoch,
    /// An epoch whose copies here are all whole but that it has not seen committed.
    pub whole: Option<Epoch>,
    /// Nanoseconds of work that are lost where all go back to `committed` instead of `whole`.
    pub lost_ns: u64,
    /// Nanoseconds that it takes to send a whole copy; 0: unknown.
    pub fetch_ns: u64,
    /// Something is missing in its own copies: it may need those that a dead process has left.
    pub is_thin: bool,
    /// It has asked the daemon for spares (`wishes`).
    pub has_asked: bool,
    /// What a newcomer has.
    pub held: Option<Held>,
    /// Copies that it has found damaged in this recovery.
    pub refused: Vec<Refused>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Refused {
    /// The worker whose copy it is.
    pub worker: Worker,
    /// The process that has it.
    pub at: ProcessNumber,
}

/// Copies of an epoch that a newcomer has got when it was to take a part, before another failure
/// ended that attempt, or that a dead process has left to it. They are as good as those of a
/// worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Held {
    /// The worker whose part it was to take.
    pub own: Worker,
    /// Whether it has that worker's own copy, of which nothing is missing.
    pub has_own: bool,
    /// The layers (1 << layer) in which it has the copy of that worker's partner.
    pub layers: u64,
    /// Their epoch, the last that is committed.
    pub epoch: Epoch,
    /// A later epoch of which it has them as well: whoever had them died before it saw that
    /// committed.
    pub whole: Option<Epoch>,
    /// The process that has left them, if one has.
    pub player: Option<ProcessNumber>,
}

impl Held {
    /// Whether they are copies of this epoch, or can be.
    pub fn reaches(&self, epoch: Epoch) -> bool {
        epoch != Epoch::NONE && (self.epoch == epoch || self.whole == Some(epoch))
    }
}

/// Somebody would have this spare take this part. It counts if it is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    pub worker: Worker,
    pub spare: ProcessNumber,
}

/// A newcomer takes the part of a dead worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    pub worker: Worker,
    pub player: ProcessNumber,
    /// It has the worker's own copy already.
    pub has_own: bool,
    /// The layers (1 << layer) in which it has already the copy that the worker kept for its
    /// partner.
    pub layers: u64,
}

/// A worker gets its own copy, or a part of it, from a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub worker: Worker,
    pub from: Worker,
}

/// A worker's copy is made again at its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remake {
    pub worker: Worker,
    pub layer: usize,
    pub at: Worker,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The epoch that everybody goes back to.
    pub epoch: Epoch,
    /// Dead workers in rising order.
    pub takeovers: Vec<Takeover>,
    /// The player of each worker, takeovers included.
    pub players: Vec<ProcessNumber>,
    /// Workers that have no good copy of their own.
    pub fetches: Vec<Fetch>,
    /// Copies that died with their holders or are damaged.
    pub remakes: Vec<Remake>,
    /// What is not in memory any more, so that everybody goes back to an epoch on disk.
    pub lost: Option<Lost>,
}

impl Plan {
    /// The part that this process plays.
    pub fn part_of(&self, process: ProcessNumber) -> Option<Worker> {
        let at = self.players.iter().position(|&player| player == process);
        at.map(Worker::at)
    }

    /// Who takes the part of this worker, if that is new.
    pub fn takeover(&self, worker: Worker) -> Option<&Takeover> {
        self.takeovers
            .iter()
            .find(|takeover| takeover.worker == worker)
    }

    /// Where this worker gets its own copy from, if it has none: the holder, or all others of its
    /// parity group, by layer.
    pub fn sources(&self, worker: Worker) -> impl Iterator<Item = Worker> {
        let fetches = self
            .fetches
            .iter()
            .filter(move |fetch| fetch.worker == worker);
        fetches.map(|fetch| fetch.from)
    }

    /// The first of them.
    pub fn source(&self, worker: Worker) -> Option<Worker> {
        self.sources(worker).next()
    }
}

/// Why a holder cannot give a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The holder has died.
    Dead,
    /// The copy has a wrong checksum.
    Damaged,
}

/// Why the job cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nobody has a committed epoch.
    Init,
    /// No worker is left.
    Everyone,
    /// No copy of a worker is left.
    Copies {
        worker: Worker,
        /// Whether it has died; otherwise its own copy is damaged.
        died: bool,
        /// Each holder of its copy, and what is wrong there.
        holders: Vec<(Worker, Gone)>,
        epoch: Epoch,
    },
    /// A worker has neither committed the epoch nor its copies whole, which cannot be.
    Behind {
        worker: Worker,
        /// The epoch that it has.
        at: Epoch,
        /// The epoch of the others.
        epoch: Epoch,
    },
    /// The program itself is to blame.
    Program(Verdict),
}

/// What the living have said, in the form that a plan is made of.
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

    /// Newcomers that have the copies of a dead worker.
    fn heirs(&self) -> impl Iterator<Item = &Held> {
        let newcomers = self
            .living
            .iter()
            .filter(|identity| identity.part.is_none());
        let held = newcomers.filter_map(|newcomer| newcomer.held.as_ref());
        held.filter(|held| self.player(held.own).is_none())
    }

    /// Who has what this dead worker had of this epoch.
    fn heir(&self, worker: Worker, epoch: Epoch) -> Option<&Held> {
        self.heirs()
            .find(|held| held.own == worker && held.reaches(epoch))
    }

    /// Whether somebody has a copy of this epoch of a dead worker, if all living workers have it.
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

    /// Whether this process has a copy of the worker that somebody has found damaged.
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

/// Makes the plan for `workers` workers whose copies are where `redundancy` says.
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

/// Makes the plan for going back to an epoch on disk, which is chosen then, since copies in memory
/// are `lost`.
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
    // What a newcomer has got is of another epoch.
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

/// The player of each worker.
fn players(job: &Job, takeovers: &[Takeover]) -> Vec<ProcessNumber> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let players =
        Worker::all(job.workers).map(|worker| match (taken(worker), job.player(worker)) {
            (Some(takeover), _) => takeover.player,
            (None, living) => living.map_or_else(ProcessNumber::default, |living| living.process),
        });
    players.collect()
}

/// Where each worker without a good copy of its own gets one from.
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

/// Why a holder cannot give what it holds of a worker, if it cannot. `successor` is who takes its
/// part, if it has died.
fn state_of(
    job: &Job,
    successor: Option<&Takeover>,
    worker: Worker,
    (layer, holder): (usize, Worker),
) -> Option<Gone> {
    // With parity, it gives of its own pages, too.
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

/// Which copies are to be made again.
fn remakes(job: &Job, takeovers: &[Takeover]) -> Vec<Remake> {
    let taken = |worker: Worker| takeovers.iter().find(|takeover| takeover.worker == worker);
    let is_gone = |copy: &Remake| match job.player(copy.at) {
        Some(player) => job.is_refused(copy.worker, player.process),
        None => taken(copy.at).is_none_or(|takeover| takeover.layers & (1 << copy.layer) == 0),
    };
    let mut all = every_copy(job.redundancy, job.workers);
    // Parity is made of what all partners give.
    let lost: Vec<Worker> = all
        .iter()
        .filter(|it| is_gone(it))
        .map(|it| it.at)
        .collect();
    all.retain(|copy| is_gone(copy) || job.redundancy.is_parity() && lost.contains(&copy.at));
    all
}

/// All copies, as if none were there: everybody goes back to an epoch that was not in memory.
pub fn every_copy(redundancy: &Redundancy, workers: u32) -> Vec<Remake> {
    let of = |worker: Worker| {
        let holders = redundancy.holders_of(worker).enumerate();
        holders.map(move |(layer, at)| Remake { worker, layer, at })
    };
    Worker::all(workers).flat_map(of).collect()
}

/// The last epoch that anyone has committed, or, where all living workers have their copies whole,
/// those of the dead among them, the one after: the dead may have committed it. If they cannot
/// have, the one that costs less.
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

/// Whether the epoch after `committed` costs more: who has died has left a copy of `committed` but
/// none of the later one, which would have to be sent, and takes longer than to do the work between
/// the two again; or costs the job, where one who lives may need what such a process has kept for
/// it. The copy is noted before its process comes to the meeting that commits the epoch, so nobody
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

/// Gives each dead worker the newcomer that has its copy already, else the one that is wished, if
/// it is free, else the lowest one; newcomers that have a dead worker's copy are not free.
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
