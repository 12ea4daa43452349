//! Placement hints: the daemon's choice of spares that replace failed workers.
//!
//! Before a generation begins, the leader sends a request to one process
//! ([`register_for_placement_requests`]), and this process queries the daemon. All processes get
//! the answer in the meeting. Settings may differ between processes, and some processes may reach
//! no daemon, so each process decides only on the states that all have exchanged.

use super::placement_hint::PlacementHint;
use crate::{DOOR, Runtime};
use crate::{daemon, events, reinit, world};
use understudy_formats::events::{Kind, SpareChoice};
use understudy_mpi as mpi;
use understudy_mpi::call;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Generation, ProcessNumber, Worker};
use understudy_policy::recovery_plan::{Plan, RequestedSpare};
use understudy_wire::spares::Lease;

/// Registers this process for placement requests, if it has a daemon.
pub fn register_for_placement_requests() {
    if daemon::is_set() {
        reinit::set_chooser(|fallen| request_spares(DOOR.get(), fallen));
    }
}

/// Returns the spares that should replace these processes.
fn request_spares(rt: &Runtime, fallen: &[ProcessNumber]) -> Vec<ProcessNumber> {
    let (world, generation) = (world::get(rt), call::required_instance());
    let workers = Worker::all(world.worker_count).zip(&world.process_of);
    let fallen = workers.filter(|(_, process)| fallen.contains(process));
    let dead: Vec<Worker> = fallen.map(|(worker, _)| worker).collect();
    let hint = PlacementHint(daemon::lease(rt, u64::from(generation.0), &dead));
    let leases = hint.0.as_deref().unwrap_or_default();
    let named = leases.iter().filter(|lease| dead.contains(&lease.worker));
    let spares = named.map(|lease| lease.rank).collect();
    rt.recovery.placement_hint.set(Some((generation, hint)));
    spares
}

/// True if this process has queried the daemon for this generation.
pub fn has_hint(rt: &Runtime) -> bool {
    let is_current =
        |(generation, _): &(Generation, PlacementHint)| *generation == call::required_instance();
    rt.recovery
        .placement_hint
        .borrow()
        .as_ref()
        .is_some_and(is_current)
}

/// Result of an exchange of placement hints.
pub struct ExchangedHints {
    /// Spares that the daemon has named, equal in all processes.
    pub of_all: Vec<RequestedSpare>,
    /// Answer of the daemon to this process, if this process has queried the daemon.
    pub own: Option<PlacementHint>,
}

/// Exchanges the placement hints for these dead workers; collective.
///
/// # Errors
/// Fails if a process has failed.
pub fn exchange_hints(rt: &Runtime, all: RealComm, dead: &[Worker]) -> mpi::Result<ExchangedHints> {
    let hint = has_hint(rt)
        .then(|| rt.recovery.placement_hint.take())
        .flatten()
        .map(|(_, hint)| hint);
    let leased = |worker: &Worker| {
        let leases = hint.as_ref().and_then(|hint| hint.0.as_ref().ok())?;
        leases.iter().find(|lease| lease.worker == *worker)
    };
    let own: Vec<u64> = dead
        .iter()
        .map(|worker| leased(worker).map_or(0, |lease| 1 + u64::from(lease.rank.0)))
        .collect();
    // The process that has queried the daemon has nonzero values; all others have zeros.
    let hints = all.allreduce_min_max(Extreme::Greatest, &own)?;
    let requested = |(&worker, word): (&Worker, u64)| {
        let spare = ProcessNumber(word.checked_sub(1)? as u32);
        Some(RequestedSpare { worker, spare })
    };
    Ok(ExchangedHints {
        of_all: dead.iter().zip(hints).filter_map(requested).collect(),
        own: hint,
    })
}

/// Records the choice in the event file, and returns unused leases to the daemon.
pub fn record_choice(rt: &Runtime, hint: Option<PlacementHint>, plan: &Plan) {
    let Some(PlacementHint(answer)) = hint else {
        return;
    };
    let leases = answer.as_deref().unwrap_or_default();
    let is_used = |lease: &&Lease| {
        plan.takeover(lease.worker)
            .is_some_and(|it| it.process == lease.rank)
    };
    let choices = plan.takeovers.iter().map(|it| SpareChoice {
        worker: it.worker,
        rank: it.process,
        by_daemon: leases
            .iter()
            .filter(is_used)
            .any(|lease| lease.worker == it.worker),
    });
    let choices: Vec<SpareChoice> = choices.collect();
    let reason = match &answer {
        Err(why) => Some(format!("the daemon: {why}")),
        Ok(leases) => choices.iter().find(|choice| !choice.by_daemon).map(|choice| {
            let lease = leases.iter().find(|lease| lease.worker == choice.worker);
            match lease {
                None => format!("the daemon has no spare for worker {}", choice.worker),
                Some(lease) => format!(
                    "rank {}, which the daemon has named for worker {}, is no living idle spare, \
                     or another spare already has the replica",
                    lease.rank, choice.worker
                ),
            }
        }),
    };
    if let Some(reason) = &reason {
        log::info!("spares are chosen by the built-in rule: {reason}");
    }
    let recovery = world::get(rt).recoveries;
    events::emit(Kind::SparesChosen {
        recovery,
        choices,
        reason,
    });
    let unused = leases.iter().filter(|lease| !is_used(lease));
    daemon::release_leases(&unused.map(|lease| lease.token).collect::<Vec<_>>());
}
