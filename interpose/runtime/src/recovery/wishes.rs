//! Which spares the daemon would have take the parts of the dead: one process asks, and all hear the answer.
//!
//! Settings may differ between processes, and a daemon may be there for some and not for others; what everybody does follows from what
//! all have said of themselves in this meeting.

use super::plan::{Identity, NONE, Plan, Wish};
use crate::cell::Main;
use crate::gather::{Extreme, extremes};
use crate::{daemon, events, world};
use ckptd::events::{Kind, SpareChoice, Worker, WorldRank};
use ckptd::pool::Lease;
use std::ffi::c_int;
use understudy_mpi::real_types::RealComm;

/// Rounds of leases that this process knows of.
static ROUNDS: Main<u64> = Main::new(0);

/// What a process says of itself: 0 if it has no daemon, else 1 + the rounds that it knows of.
pub fn word() -> u64 {
    match daemon::is_set() {
        true => 1 + *ROUNDS.borrow(),
        false => 0,
    }
}

/// What the process that has asked knows of the answer.
pub struct Asked(Result<Vec<Lease>, String>);

/// The daemon's wishes; the same in all processes. Collective if there is something to ask and somebody who can.
pub fn ask(control: RealComm, living: &[Identity], dead: &[u32]) -> Result<(Vec<Wish>, Option<Asked>), c_int> {
    let workers = living.iter().filter(|identity| identity.part != NONE);
    let leader = workers
        .filter(|identity| identity.daemon != 0)
        .map(|identity| identity.part)
        .min();
    let Some(leader) = leader.filter(|_| !dead.is_empty()) else {
        return Ok((Vec::new(), None));
    };
    let round = living.iter().map(|identity| identity.daemon).max().unwrap_or(0);
    ROUNDS.set(round);
    let asked = daemon::is_leader(leader).then(|| Asked(daemon::lease(round, dead)));
    let leased = |worker: &u32| {
        let leases = asked.as_ref().and_then(|asked| asked.0.as_ref().ok())?;
        leases.iter().find(|lease| lease.worker == *worker)
    };
    let own: Vec<u64> = dead
        .iter()
        .map(|worker| leased(worker).map_or(0, |lease| 1 + u64::from(lease.rank)))
        .collect();
    // One process says something, all others zeros.
    let all = extremes(control, Extreme::Greatest, &own)?;
    let wish = |(&worker, word): (&u32, u64)| {
        let spare = word.checked_sub(1)?;
        Some(Wish { worker, spare })
    };
    Ok((dead.iter().zip(all).filter_map(wish).collect(), asked))
}

/// Who has chosen, for the event file; what is not used goes back to the daemon.
pub fn settle(asked: Option<Asked>, plan: &Plan) {
    let Some(Asked(answer)) = asked else { return };
    let leases = answer.as_deref().unwrap_or_default();
    let is_used = |lease: &&Lease| plan.takeover(lease.worker).is_some_and(|it| it.player == lease.rank);
    let choices = plan.takeovers.iter().map(|it| SpareChoice {
        worker: Worker(it.worker),
        rank: WorldRank(it.player),
        by_daemon: leases.iter().filter(is_used).any(|lease| lease.worker == it.worker),
    });
    let choices: Vec<SpareChoice> = choices.collect();
    let reason = match &answer {
        Err(why) => Some(format!("the daemon: {why}")),
        Ok(leases) => choices.iter().find(|choice| !choice.by_daemon).map(|choice| {
            let lease = leases.iter().find(|lease| lease.worker == choice.worker.0);
            match lease {
                None => format!("the daemon has no spare for worker {}", choice.worker),
                Some(lease) => format!(
                    "rank {}, which the daemon has named for worker {}, is no living idle spare, or another one has the copy already",
                    lease.rank, choice.worker
                ),
            }
        }),
    };
    if let Some(reason) = &reason {
        log::info!("spares are chosen by the built-in rule: {reason}");
    }
    let recovery = world::get().recoveries;
    events::emit(Kind::SparesChosen {
        recovery,
        choices,
        reason,
    });
    let unused = leases.iter().filter(|lease| !is_used(lease));
    daemon::give_back(&unused.map(|lease| lease.token).collect::<Vec<_>>());
}
