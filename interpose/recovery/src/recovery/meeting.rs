//! Agreement of the living processes: all exchange their state and derive equal plans.

use super::deaths;
use super::placement;
use super::reported_replicas;
use super::silent_nodes;
use crate::Runtime;
use crate::abort::abort;
use crate::gather::gather_from_all;
use crate::world::{self, Role};
use crate::{copies, disk, events, peers, reinit, user};
use std::ffi::c_int;
use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_plan::{
    self as plan, Plan, PlanFailure, ProcessReport, RequestedSpare, SourceFailure,
};

/// Time for which the other processes leave it to the first to end the job.
const ABORT_DELAY: Duration = Duration::from_secs(1);

/// Result of a meeting, equal in all processes that finish it.
pub struct Meeting {
    /// Living processes in ascending order.
    pub living: Vec<ProcessNumber>,
    /// Plan of the recovery, or the reason why recovery is impossible.
    pub verdict: Result<Plan, PlanFailure>,
}

/// Returns the state that this process reports; `whole` is as in [`ProcessReport`].
fn own_identity(rt: &Runtime, whole: Option<Epoch>) -> ProcessReport {
    let world = world::get(rt);
    let (part, held) = match world.role {
        Role::Worker(worker) => (Some(worker), None),
        Role::Joining => (None, reported_replicas::available(rt)),
    };
    let (lost_ns, fetch_ns) = copies::recovery_costs(rt);
    ProcessReport {
        process: world.process,
        worker: part,
        committed: copies::committed_epoch(rt),
        complete: whole,
        lost_ns,
        fetch_ns,
        is_reduced: copies::is_reduced(rt),
        has_requested_spares: placement::has_hint(rt),
        kept: held,
        damaged: reported_replicas::refused(rt),
    }
}

/// Exchanges the states of all processes, and makes the plan.
pub fn meet(rt: &Runtime, all: RealComm, whole: Option<Epoch>) -> mpi::Result<Meeting> {
    let world = world::get(rt);
    let identities = gather_from_all(all, &own_identity(rt, whole))?;
    let world = match record_processes(rt, &identities) {
        true => world::get(rt),
        false => world,
    };
    let plays = |worker: Worker| {
        identities
            .iter()
            .any(|living| living.worker == Some(worker))
    };
    let dead: Vec<Worker> = Worker::all(world.worker_count)
        .filter(|&worker| !plays(worker))
        .collect();
    let (hints, asked) = placement::exchange_hints(rt, all, &identities, &dead)?;
    let mut verdict = plan::make_plan(&identities, &world.redundancy, world.worker_count, &hints);
    if let Err(
        lost @ (PlanFailure::Copies { .. } | PlanFailure::Behind { .. } | PlanFailure::Everyone),
    ) = &verdict
        && disk::has_disk_level(rt)
    {
        verdict = from_disk(rt, all, &identities, &hints, lost.clone())?;
    }
    let mut living: Vec<ProcessNumber> = identities.iter().map(|living| living.process).collect();
    living.sort_unstable();
    let output = deaths::exchange(rt, all, &dead, &living)?;
    let newest = identities
        .iter()
        .map(|living| living.committed)
        .max()
        .unwrap_or_default();
    if let Some(blamed) = deaths::judge(rt, verdict.as_ref().map_or(newest, |plan| plan.epoch)) {
        verdict = Err(PlanFailure::Program(blamed));
    }
    if let Ok(plan) = &verdict {
        placement::record_choice(rt, asked, plan);
        silent_nodes::record(rt, &identities, plan);
        if let Some(at) = dead
            .iter()
            .position(|&worker| plan.worker_of(world.process) == Some(worker))
        {
            user::set_inherited_output(rt, output[at]);
        }
    }
    Ok(Meeting { living, verdict })
}

/// Records former processes of workers, as the replicas of dead processes name them.
///
/// Such a process may have taken over only in the view of some processes. Returns true if a record
/// changed.
fn record_processes(rt: &Runtime, identities: &[ProcessReport]) -> bool {
    let held = identities.iter().filter_map(|living| living.kept);
    let known_processes: Vec<_> = held
        .filter_map(|held| Some((held.own, held.process?)))
        .collect();
    world::update(rt, |world| {
        for &(worker, process) in &known_processes {
            world.process_of[worker.index()] = process;
        }
    });
    !known_processes.is_empty()
}

/// Makes a plan that uses an epoch on disk, as memory has not enough replicas.
fn from_disk(
    rt: &Runtime,
    all: RealComm,
    identities: &[ProcessReport],
    hints: &[RequestedSpare],
    lost: PlanFailure,
) -> mpi::Result<Result<Plan, PlanFailure>> {
    let world = world::get(rt);
    let (redundancy, workers) = (&world.redundancy, world.worker_count);
    let plan = plan::make_plan_from_disk(identities, redundancy, workers, hints, lost.clone());
    let part = plan.worker_of(world.process).ok_or(mpi::Error::INTERN)?;
    let chosen = disk::choose(rt, all, part, &mut copies::replicas(rt).store)?;
    Ok(chosen.map_or(Err(lost), |key| {
        Ok(Plan {
            epoch: key.epoch,
            ..plan
        })
    }))
}

/// Ends the job; the first of the living processes reports the agreed reason.
pub fn end_lost_job(rt: &Runtime, living: &[ProcessNumber], lost: &PlanFailure) -> ! {
    if *lost == PlanFailure::Init {
        reinit::await_restart(rt);
    }
    let (reason, status) = match lost {
        PlanFailure::Program(blamed) => (format!("the job ends: {}", blamed.why), blamed.status),
        _ => (
            format!("the job cannot be recovered: {}", describe(rt, lost)),
            exit_status::RECOVERY_FAILED,
        ),
    };
    let is_first = living.first() == Some(&world::get(rt).process);
    if is_first {
        crate::system_calls::print_message(&reason);
    }
    events::emit(Kind::Lost { reason, status });
    end_together(rt, is_first, status)
}

/// Ends the job in all processes.
///
/// The first process has printed a message before.
pub fn end_together(rt: &Runtime, is_first: bool, code: c_int) -> ! {
    // If two processes aborted simultaneously, the launcher would get no exit status.
    if !is_first {
        std::thread::sleep(ABORT_DELAY);
    }
    abort(rt, code)
}

/// Returns the text for a worker, with its process and host.
fn worker_and_host(rt: &Runtime, worker: Worker) -> String {
    let process = world::get(rt).process_of[worker.index()];
    let host = peers::host(process);
    format!("worker {worker} (rank {process} on {host})")
}

/// Returns the reason why the job is lost, with the lost processes and hosts.
fn describe(rt: &Runtime, lost: &PlanFailure) -> String {
    match lost {
        PlanFailure::Init => message::FAILURE_IN_INIT.into(),
        PlanFailure::Copies { .. } | PlanFailure::Everyone if disk::has_disk_level(rt) => {
            message::no_checkpoint_on_disk(cause(rt, lost)).to_string()
        }
        PlanFailure::Copies { .. } | PlanFailure::Everyone => {
            format!("{}; start the job again", cause(rt, lost))
        }
        PlanFailure::Behind { .. } | PlanFailure::Program(_) => cause(rt, lost),
    }
}

/// Returns the reason why the replicas in memory are not sufficient.
pub fn cause(rt: &Runtime, lost: &PlanFailure) -> String {
    match lost {
        PlanFailure::Copies {
            worker,
            died,
            buddies,
            epoch,
        } => no_copy(rt, *worker, *died, buddies, *epoch),
        PlanFailure::Behind { worker, at, epoch } => {
            message::checkpoint_not_reached(worker_and_host(rt, *worker), at, epoch).to_string()
        }
        PlanFailure::Program(blamed) => blamed.why.clone(),
        PlanFailure::Everyone => message::ALL_REPLICAS_LOST.into(),
        PlanFailure::Init => String::new(),
    }
}

/// Returns the text that no replica of a worker is left, with reasons.
fn no_copy(
    rt: &Runtime,
    worker: Worker,
    died: bool,
    buddies: &[(Worker, SourceFailure)],
    epoch: Epoch,
) -> String {
    let names = |gone: SourceFailure| {
        let of = buddies.iter().filter(move |buddy| buddy.1 == gone);
        of.map(|buddy| worker_and_host(rt, buddy.0))
            .collect::<Vec<_>>()
    };
    let (dead, damaged) = (
        names(SourceFailure::Dead).join(" and "),
        names(SourceFailure::Damaged).join(" and "),
    );
    let worker = worker_and_host(rt, worker);
    if world::get(rt).redundancy.is_parity() {
        return no_parity(&worker, died, [&dead, &damaged], epoch);
    }
    let only = if buddies.len() == 1 {
        "its only replica"
    } else {
        "its only replicas"
    };
    if buddies.is_empty() {
        return message::no_replica_left(worker, epoch).to_string();
    }
    match (died, damaged.is_empty(), dead.is_empty()) {
        (true, true, _) => message::buddy_died_too(worker, dead, only, epoch).to_string(),
        (true, false, true) => message::replica_damaged(worker, epoch, damaged).to_string(),
        (true, false, false) => {
            message::buddy_died_replica_damaged(worker, dead, epoch, damaged).to_string()
        }
        (false, true, _) => message::own_replica_damaged(epoch, worker, dead).to_string(),
        (false, false, _) => message::replicas_damaged(
            epoch,
            worker,
            damaged,
            if dead.is_empty() {
                String::new()
            } else {
                format!("; {dead}, which stored another, failed")
            },
        )
        .to_string(),
    }
}

/// Returns the text for a lost parity group.
///
/// `dead` and `damaged` are the members that have died, or whose data are damaged.
fn no_parity(worker: &str, worker_died: bool, [dead, damaged]: [&str; 2], epoch: Epoch) -> String {
    let lost = match worker_died {
        true => format!("{worker} failed"),
        false => format!(
            "the replica (checkpoint {}) that {worker} keeps of itself has a wrong checksum",
            epoch
        ),
    };
    match (dead.is_empty(), worker_died) {
        (false, true) => message::parity_group_lost(lost, dead, epoch).to_string(),
        (false, false) => message::parity_group_damaged(lost, dead).to_string(),
        (true, _) => message::parity_damaged(lost, epoch, damaged).to_string(),
    }
}
