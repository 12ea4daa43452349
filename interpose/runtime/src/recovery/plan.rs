//! Who takes which part: a pure function of what the living processes say of themselves.

use crate::placement::Holders;

/// What a living process says of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Rank in the launcher's world.
    pub launcher_rank: u64,
    /// The worker that it plays, or [`NONE`] for a spare.
    pub part: u64,
    /// Last epoch that it has committed.
    pub committed: u64,
    /// An epoch whose two copies here are whole but that it has not seen committed; 0: none.
    pub whole: u64,
    /// 0, or 1 + the status with which it wants the job to end.
    pub abort: u64,
    /// What a spare has got in an attempt that came to nothing.
    pub held: Held,
}

/// No worker.
pub const NONE: u64 = u64::MAX;

/// Copies of an epoch that a spare has got when it was to take a part, before another failure ended that attempt. They are
/// as good as those of a worker.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The worker whose part it was to take and whose own copy it has, or [`NONE`].
    pub own: u64,
    /// The worker whose copy it keeps as the holder, or [`NONE`].
    pub partner: u64,
    /// Their epoch.
    pub epoch: u64,
}

impl Held {
    /// Nothing.
    pub const NOTHING: Held = Held {
        own: NONE,
        partner: NONE,
        epoch: 0,
    };
}

impl Default for Identity {
    fn default() -> Self {
        Identity {
            launcher_rank: 0,
            part: NONE,
            committed: 0,
            whole: 0,
            abort: 0,
            held: Held::NOTHING,
        }
    }
}

/// A spare takes the part of a dead worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// The worker.
    pub worker: u32,
    /// Launcher rank of the spare.
    pub player: u32,
    /// It has the worker's own copy already.
    pub has_own: bool,
    /// It has the copy that the worker kept for its partner already.
    pub has_partner: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The epoch that everybody goes back to.
    pub epoch: u64,
    /// Dead workers in rising order.
    pub takeovers: Vec<Takeover>,
    /// Launcher rank of the player of each worker, takeovers included.
    pub players: Vec<u32>,
    /// What is not in memory any more, so that everybody goes back to an epoch on disk.
    pub lost: Option<Lost>,
}

impl Plan {
    /// The part that a process of this launcher rank plays.
    pub fn part_of(&self, launcher_rank: u32) -> Option<u32> {
        let at = self.players.iter().position(|&player| player == launcher_rank);
        at.map(|worker| worker as u32)
    }

    /// Who takes the part of this worker, if that is new.
    pub fn takeover(&self, worker: u32) -> Option<&Takeover> {
        self.takeovers.iter().find(|takeover| takeover.worker == worker)
    }
}

/// Why the job cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nobody has a committed epoch.
    Init,
    /// More dead workers than spares.
    Spares {
        /// Dead workers.
        dead: Vec<u32>,
        /// Living spares.
        spares: usize,
    },
    /// A worker died together with the holder of its copy.
    Copies {
        /// The dead worker.
        worker: u32,
        /// The dead holder.
        holder: u32,
        /// The epoch.
        epoch: u64,
    },
    /// A worker has neither committed the epoch nor its copies whole, which cannot be.
    Behind {
        /// The worker.
        worker: u32,
        /// The epoch that it has.
        at: u64,
        /// The epoch of the others.
        epoch: u64,
    },
}

/// Makes the plan for `workers` workers whose copies are where `holders` says.
pub fn make(living: &[Identity], holders: &Holders, workers: u32) -> Result<Plan, Lost> {
    let player = |worker: u32| living.iter().find(|identity| identity.part == u64::from(worker));
    let dead: Vec<u32> = (0..workers).filter(|&worker| player(worker).is_none()).collect();
    let all_holders_live = dead.iter().all(|&worker| player(holders.holder_of(worker)).is_some());
    let epoch = epoch(living, all_holders_live)?;
    let spares: Vec<&Identity> = living.iter().filter(|identity| identity.part == NONE).collect();
    let takeovers = assign(&dead, &spares, epoch, holders);
    for &worker in &dead {
        let holder = holders.holder_of(worker);
        let of = |worker: u32| takeovers.iter().find(|takeover| takeover.worker == worker);
        let has_own = of(worker).is_some_and(|takeover| takeover.has_own);
        let is_held = player(holder).is_some() || of(holder).is_some_and(|takeover| takeover.has_partner);
        if !has_own && !is_held {
            return Err(Lost::Copies { worker, holder, epoch });
        }
    }
    if dead.len() > spares.len() {
        let spares = spares.len();
        return Err(Lost::Spares { dead, spares });
    }
    Ok(Plan {
        epoch,
        players: players(living, &takeovers, workers),
        takeovers,
        lost: None,
    })
}

/// Makes the plan for going back to an epoch on disk, which is chosen then, since copies in memory are `lost`.
pub fn from_disk(living: &[Identity], holders: &Holders, workers: u32, lost: Lost) -> Result<Plan, Lost> {
    let lives = |worker: u32| living.iter().any(|identity| identity.part == u64::from(worker));
    let dead: Vec<u32> = (0..workers).filter(|&worker| !lives(worker)).collect();
    let spares: Vec<&Identity> = living.iter().filter(|identity| identity.part == NONE).collect();
    if dead.len() > spares.len() {
        let spares = spares.len();
        return Err(Lost::Spares { dead, spares });
    }
    // What a spare has got is of another epoch.
    let takeovers = assign(&dead, &spares, u64::MAX, holders);
    Ok(Plan {
        epoch: 0,
        players: players(living, &takeovers, workers),
        takeovers,
        lost: Some(lost),
    })
}

/// Launcher rank of the player of each worker.
fn players(living: &[Identity], takeovers: &[Takeover], workers: u32) -> Vec<u32> {
    let taken = |worker: u32| takeovers.iter().find(|takeover| takeover.worker == worker);
    let player = |worker: u32| living.iter().find(|identity| identity.part == u64::from(worker));
    let players = (0..workers).map(|worker| match (taken(worker), player(worker)) {
        (Some(takeover), _) => takeover.player,
        (None, living) => living.map_or(0, |living| living.launcher_rank as u32),
    });
    players.collect()
}

/// The last epoch that anyone has committed, or, where all living workers have their copies whole, those of the dead
/// among them, the one after: the dead may have committed it.
fn epoch(living: &[Identity], all_holders_live: bool) -> Result<u64, Lost> {
    let workers = || living.iter().filter(|identity| identity.part != NONE);
    let can_reach = |identity: &Identity, epoch| identity.committed == epoch || identity.whole == epoch;
    let committed = workers().map(|identity| identity.committed).max().unwrap_or(0);
    let whole = workers().map(|identity| identity.whole).max().unwrap_or(0);
    if all_holders_live && whole > committed && workers().all(|identity| can_reach(identity, whole)) {
        return Ok(whole);
    }
    if committed == 0 {
        return Err(Lost::Init);
    }
    match workers().find(|identity| !can_reach(identity, committed)) {
        None => Ok(committed),
        Some(behind) => Err(Lost::Behind {
            worker: behind.part as u32,
            at: behind.committed,
            epoch: committed,
        }),
    }
}

/// Gives each dead worker the spare that has its copy already, else the lowest one that has none of a dead worker's.
fn assign(dead: &[u32], spares: &[&Identity], epoch: u64, holders: &Holders) -> Vec<Takeover> {
    let has = |spare: &Identity, worker: u32| spare.held.own == u64::from(worker) && spare.held.epoch == epoch;
    let mut free: Vec<&Identity> = spares.to_vec();
    let mut chosen: Vec<Option<&Identity>> = Vec::new();
    for &worker in dead {
        let at = free.iter().position(|spare| has(spare, worker));
        chosen.push(at.map(|at| free.remove(at)));
    }
    let mut free = free.into_iter();
    let takeovers = dead.iter().zip(chosen).filter_map(|(&worker, chosen)| {
        let spare = chosen.or_else(|| free.next())?;
        let has_own = has(spare, worker);
        let partner = holders.partner_of(worker);
        Some(Takeover {
            worker,
            player: spare.launcher_rank as u32,
            has_own,
            has_partner: has_own && spare.held.partner == u64::from(partner),
        })
    });
    takeovers.collect()
}

#[cfg(test)]
mod tests {
    use super::{Held, Holders, Identity, Lost, NONE, Plan, Takeover};

    /// The plan if copies are `offset` further.
    fn make(living: &[Identity], workers: u32, offset: u32) -> Result<Plan, Lost> {
        super::make(living, &Holders::rotation(workers, offset), workers)
    }

    fn worker(launcher_rank: u64, part: u64, committed: u64) -> Identity {
        Identity {
            launcher_rank,
            part,
            committed,
            ..Identity::default()
        }
    }

    fn spare(launcher_rank: u64) -> Identity {
        worker(launcher_rank, NONE, 0)
    }

    fn holding(launcher_rank: u64, own: u64, partner: u64, epoch: u64) -> Identity {
        Identity {
            held: Held { own, partner, epoch },
            ..spare(launcher_rank)
        }
    }

    fn whole(identity: Identity, whole: u64) -> Identity {
        Identity { whole, ..identity }
    }

    fn takeover(worker: u32, player: u32) -> Takeover {
        Takeover {
            worker,
            player,
            has_own: false,
            has_partner: false,
        }
    }

    #[test]
    fn the_lowest_spare_takes_the_lowest_dead_part() {
        let living = [worker(0, 0, 3), worker(2, 2, 3), worker(3, 3, 3), spare(4), spare(5)];
        let plan = make(&living, 4, 2).unwrap();
        assert_eq!(
            plan,
            Plan {
                epoch: 3,
                takeovers: vec![takeover(1, 4)],
                players: vec![0, 4, 2, 3],
                lost: None,
            }
        );
    }

    #[test]
    fn an_epoch_that_anyone_has_committed_counts() {
        let living = [whole(worker(0, 0, 3), 4), worker(1, 1, 4), spare(3)];
        assert_eq!(make(&living, 3, 1).unwrap().epoch, 4);
        let behind = [worker(0, 0, 3), worker(1, 1, 4), spare(3)];
        assert_eq!(
            make(&behind, 3, 1),
            Err(Lost::Behind {
                worker: 0,
                at: 3,
                epoch: 4
            })
        );
    }

    #[test]
    fn an_epoch_that_the_dead_may_have_committed_counts_if_all_others_have_it_whole() {
        let all = [whole(worker(0, 0, 3), 4), whole(worker(1, 1, 3), 4), spare(3)];
        assert_eq!(make(&all, 3, 1).unwrap().epoch, 4);
        let not_all = [whole(worker(0, 0, 3), 4), worker(1, 1, 3), spare(3)];
        assert_eq!(make(&not_all, 3, 1).unwrap().epoch, 3);
        // Worker 2, which is dead as well, may have been the only one who knew that worker 1 had not got so far.
        let no_holder = [whole(worker(0, 0, 3), 4), whole(worker(3, 3, 3), 4), spare(4), spare(5)];
        let lost = Lost::Copies {
            worker: 1,
            holder: 2,
            epoch: 3,
        };
        assert_eq!(make(&no_holder, 4, 1), Err(lost));
    }

    #[test]
    fn what_is_lost_is_named() {
        assert_eq!(
            make(&[worker(0, 0, 2), worker(1, 1, 2)], 3, 1),
            Err(Lost::Spares {
                dead: vec![2],
                spares: 0
            })
        );
        let living = [worker(0, 0, 2), worker(3, 3, 2), spare(4), spare(5)];
        let lost = Lost::Copies {
            worker: 1,
            holder: 2,
            epoch: 2,
        };
        assert_eq!(make(&living, 4, 1), Err(lost));
        assert_eq!(make(&[worker(0, 0, 0), spare(2)], 2, 1), Err(Lost::Init));
    }

    #[test]
    fn what_a_spare_got_in_an_earlier_attempt_is_a_copy() {
        let fetched = Takeover {
            has_own: true,
            ..takeover(1, 5)
        };
        // Worker 2 held the only other copy of worker 1.
        let living = [worker(0, 0, 2), worker(3, 3, 2), spare(4), holding(5, 1, NONE, 2)];
        let plan = make(&living, 4, 1).unwrap();
        assert_eq!(plan.takeovers, vec![fetched, takeover(2, 4)]);
        assert_eq!(plan.players, vec![0, 5, 4, 3]);
        // An older epoch is of no use.
        let living = [worker(0, 0, 3), worker(3, 3, 3), spare(4), holding(5, 1, NONE, 2)];
        assert!(matches!(make(&living, 4, 1), Err(Lost::Copies { worker: 1, .. })));
        // Worker 1 kept the copy of worker 0, which its successor has got.
        let living = [worker(2, 2, 2), worker(3, 3, 2), spare(4), holding(5, 1, 0, 2)];
        let plan = make(&living, 4, 1).unwrap();
        let both = Takeover {
            has_partner: true,
            ..fetched
        };
        assert_eq!(plan.takeovers, vec![takeover(0, 4), both]);
        // Without that copy, worker 0 is lost.
        let living = [worker(2, 2, 2), worker(3, 3, 2), spare(4), holding(5, 1, NONE, 2)];
        assert!(matches!(make(&living, 4, 1), Err(Lost::Copies { worker: 0, .. })));
    }

    #[test]
    fn a_failure_without_a_dead_worker_needs_no_takeover() {
        let plan = make(&[worker(0, 0, 2), worker(1, 1, 2)], 2, 1).unwrap();
        assert_eq!(
            plan,
            Plan {
                epoch: 2,
                takeovers: vec![],
                players: vec![0, 1],
                lost: None,
            }
        );
    }

    #[test]
    fn what_is_lost_in_memory_may_be_on_disk() {
        let living = [worker(0, 0, 2), worker(3, 3, 2), spare(4), holding(5, 1, 0, 2)];
        let lost = Lost::Behind {
            worker: 3,
            at: 2,
            epoch: 4,
        };
        let from_disk = |living: &[Identity]| super::from_disk(living, &Holders::rotation(4, 1), 4, lost.clone());
        let plan = from_disk(&living).unwrap();
        assert_eq!(plan.takeovers, [takeover(1, 4), takeover(2, 5)]);
        assert_eq!((plan.players, plan.lost), (vec![0, 4, 5, 3], Some(lost.clone())));
        assert!(matches!(from_disk(&living[..3]), Err(Lost::Spares { spares: 1, .. })));
    }
}
