//! Who takes which part: a pure function of what the living processes say of themselves.

/// What a living process says of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Rank in the launcher's world.
    pub launcher_rank: u64,
    /// The worker that it plays, or [`SPARE`].
    pub part: u64,
    /// Last epoch that it has committed.
    pub committed: u64,
    /// An epoch whose two copies here are whole but that it has not seen committed; 0: none.
    pub whole: u64,
    /// 0, or 1 + the status with which it wants the job to end.
    pub abort: u64,
}

/// Plays no part.
pub const SPARE: u64 = u64::MAX;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The epoch that everybody goes back to.
    pub epoch: u64,
    /// Dead workers in rising order, each with the launcher rank of the spare that takes its part.
    pub takeovers: Vec<(u32, u32)>,
    /// Launcher rank of the player of each worker, takeovers included.
    pub players: Vec<u32>,
}

/// Why the job cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// More dead workers than spares.
    #[error(
        "{dead} worker(s) died and {spares} spare(s) are left (worker {first} has no understudy); start the job with more spares (UNDERSTUDY_SPARES)"
    )]
    Spares {
        /// Dead workers.
        dead: usize,
        /// Living spares.
        spares: usize,
        /// The first worker without an understudy.
        first: u32,
    },
    /// A worker died together with the holder of its copy.
    #[error("worker {worker} died together with worker {holder}, which held its only copy of epoch {epoch}")]
    Copies {
        /// The dead worker.
        worker: u32,
        /// The dead holder.
        holder: u32,
        /// The epoch.
        epoch: u64,
    },
}

/// Makes the plan for `workers` workers whose copies are `offset` further.
pub fn make(living: &[Identity], workers: u32, offset: u32) -> Result<Plan, Lost> {
    let player = |worker: u32| living.iter().find(|identity| identity.part == u64::from(worker));
    let dead: Vec<u32> = (0..workers).filter(|&worker| player(worker).is_none()).collect();
    let spares: Vec<u32> = living
        .iter()
        .filter(|identity| identity.part == SPARE)
        .map(|identity| identity.launcher_rank as u32)
        .collect();
    let epoch = living
        .iter()
        .filter(|identity| identity.part != SPARE)
        .map(|identity| identity.committed)
        .max()
        .unwrap_or(0);
    if let Some(&worker) = dead
        .iter()
        .find(|&&worker| dead.contains(&((worker + offset) % workers)))
    {
        return Err(Lost::Copies {
            worker,
            holder: (worker + offset) % workers,
            epoch,
        });
    }
    if let Some(&first) = dead.get(spares.len()) {
        return Err(Lost::Spares {
            dead: dead.len(),
            spares: spares.len(),
            first,
        });
    }
    let takeovers: Vec<(u32, u32)> = dead.into_iter().zip(spares).collect();
    let taken = |worker: u32| {
        takeovers
            .iter()
            .find(|(dead, _)| *dead == worker)
            .map(|(_, spare)| *spare)
    };
    let players = (0..workers)
        .map(|worker| taken(worker).unwrap_or_else(|| player(worker).map_or(0, |living| living.launcher_rank as u32)));
    Ok(Plan {
        epoch,
        players: players.collect(),
        takeovers: takeovers.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn living(parts: &[(u64, u64, u64)]) -> Vec<Identity> {
        parts
            .iter()
            .map(|&(launcher_rank, part, committed)| Identity {
                launcher_rank,
                part,
                committed,
                whole: 0,
                abort: 0,
            })
            .collect()
    }

    #[test]
    fn the_lowest_spare_takes_the_lowest_dead_part() {
        let plan = make(&living(&[(0, 0, 3), (2, 2, 3), (4, SPARE, 0), (5, SPARE, 0)]), 4, 2);
        assert_eq!(
            plan,
            Err(Lost::Copies {
                worker: 1,
                holder: 3,
                epoch: 3
            })
        );
        let plan = make(
            &living(&[(0, 0, 3), (2, 2, 3), (3, 3, 3), (4, SPARE, 0), (5, SPARE, 0)]),
            4,
            2,
        )
        .unwrap();
        assert_eq!(
            plan,
            Plan {
                epoch: 3,
                takeovers: vec![(1, 4)],
                players: vec![0, 4, 2, 3]
            }
        );
    }

    #[test]
    fn an_epoch_that_anyone_has_committed_counts() {
        let plan = make(&living(&[(0, 0, 3), (1, 1, 4), (3, SPARE, 0)]), 3, 1).unwrap();
        assert_eq!(plan.epoch, 4);
    }

    #[test]
    fn what_is_lost_is_named() {
        let plan = make(&living(&[(0, 0, 2), (1, 1, 2)]), 3, 1);
        assert_eq!(
            plan,
            Err(Lost::Spares {
                dead: 1,
                spares: 0,
                first: 2
            })
        );
        let plan = make(&living(&[(0, 0, 2), (3, 3, 2), (4, SPARE, 0), (5, SPARE, 0)]), 4, 1);
        assert_eq!(
            plan,
            Err(Lost::Copies {
                worker: 1,
                holder: 2,
                epoch: 2
            })
        );
    }

    #[test]
    fn a_failure_without_a_dead_worker_needs_no_takeover() {
        let plan = make(&living(&[(0, 0, 2), (1, 1, 2)]), 2, 1).unwrap();
        assert_eq!(
            plan,
            Plan {
                epoch: 2,
                takeovers: vec![],
                players: vec![0, 1]
            }
        );
    }
}
