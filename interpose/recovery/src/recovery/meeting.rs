//! Agreement of the living processes: all exchange their state and derive equal plans.

use super::common_end::end_together;
use super::deaths;
use super::placement;
use super::reported_replicas::inventory;
use super::silent_nodes;
use crate::Runtime;
use crate::gather::gather_from_all;
use crate::world::{self, Role};
use crate::{copies, disk, events, peers, process_info, reinit, user};
use understudy_catalogue::exit_status;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::meeting::{Meeting, MeetingAction, MeetingContext, MeetingEvent};
use understudy_policy::recovery_plan::{Plan, PlanFailure, ProcessReport, SourceFailure};

/// Result of a meeting, equal in all processes that finish it.
pub struct MeetingResult {
    /// Living processes in ascending order.
    pub living: Vec<ProcessNumber>,
    /// Plan of the recovery, or the reason why recovery is impossible.
    pub verdict: Result<Plan, PlanFailure>,
}

/// Returns the report of this process; `complete` is as in [`ProcessReport`].
fn own_report(rt: &Runtime, complete: Option<Epoch>) -> ProcessReport {
    let world = world::get(rt);
    let (worker, kept) = match world.role {
        Role::Worker(worker) => (Some(worker), None),
        Role::Joining => (None, inventory(rt).kept()),
    };
    let (lost_ns, fetch_ns) = copies::recovery_costs(rt);
    ProcessReport {
        process: world.process,
        worker,
        committed: copies::committed_epoch(rt),
        lacking: worker.map_or(0, |_| copies::lacking_layers(rt)),
        complete,
        lost_ns,
        fetch_ns,
        is_reduced: copies::is_reduced(rt),
        can_defer: copies::can_defer(rt),
        has_requested_spares: placement::has_hint(rt),
        departure: rt.recovery.departure.get(),
        kept,
        damaged: inventory(rt).damaged().to_vec(),
    }
}

/// Exchanges the reports of all processes, and agrees on the plan ([`understudy_policy::meeting`]).
///
/// # Errors
/// Fails if a process has failed.
pub fn meet(rt: &Runtime, all: RealComm, complete: Option<Epoch>) -> mpi::Result<MeetingResult> {
    let reports = gather_from_all(all, &own_report(rt, complete))?;
    record_processes(rt, &reports);
    let world = world::get(rt);
    let context = MeetingContext {
        redundancy: &world.redundancy,
        workers: world.worker_count,
        has_disk_level: disk::has_disk_level(rt),
    };
    let (mut meeting, mut action) = Meeting::begin(context, &reports);
    let (mut hint, mut output) = (None, Vec::new());
    let verdict = loop {
        let event = match action {
            MeetingAction::ExchangeHints => {
                let exchanged = placement::exchange_hints(rt, all, meeting.dead())?;
                hint = exchanged.own;
                MeetingEvent::Hints(exchanged.of_all)
            }
            MeetingAction::ChooseCheckpoint(plan) => {
                let me = plan.worker_of(world.process).ok_or(mpi::Error::INTERN)?;
                let chosen = disk::choose(rt, all, me, &mut copies::replicas(rt).store)?;
                MeetingEvent::Checkpoint(chosen.map(|key| key.epoch))
            }
            MeetingAction::ExchangeDeaths { epoch } => {
                output = deaths::exchange(rt, all, meeting.dead(), &meeting.living())?;
                MeetingEvent::Deaths(deaths::judge(rt, epoch))
            }
            MeetingAction::End(verdict) => break verdict,
        };
        action = meeting.step(event);
    };
    if let Ok(plan) = &verdict {
        placement::record_choice(rt, hint, plan);
        silent_nodes::record(rt, &reports, plan);
        let own = plan.worker_of(world.process);
        let replaced = meeting.dead().iter().zip(&output);
        if let Some((_, &position)) = replaced.into_iter().find(|(dead, _)| own == Some(**dead)) {
            user::set_inherited_output(rt, position);
        }
    }
    Ok(MeetingResult {
        living: meeting.living(),
        verdict,
    })
}

/// Records former processes of workers, as the replicas of dead processes name them.
///
/// Such a process may have taken over only in the view of some processes.
fn record_processes(rt: &Runtime, reports: &[ProcessReport]) {
    let kept = reports.iter().filter_map(|report| report.kept);
    let processes = kept.filter_map(|kept| Some((kept.own, kept.process?)));
    world::update(rt, |world| {
        for (worker, process) in processes {
            world.process_of[worker.index()] = process;
        }
    });
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

/// Ends the job if another job has taken over its directory of checkpoints.
///
/// Asks the file system if `asks`; otherwise an earlier finding counts.
pub fn end_if_directory_is_lost(rt: &Runtime, asks: bool) {
    let Some(why) = disk::loss(rt, asks) else {
        return;
    };
    let is_first = process_info::is_first_to_warn("directory-lost");
    if is_first {
        crate::system_calls::print_message(&why);
    }
    let status = exit_status::REFUSED;
    let reason = why;
    events::emit(Kind::Lost { reason, status });
    end_together(rt, is_first, status)
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
    let names = |failure: SourceFailure| {
        let gone = buddies.iter().filter(move |buddy| buddy.1 == failure);
        gone.map(|buddy| worker_and_host(rt, buddy.0))
            .collect::<Vec<_>>()
    };
    let [dead, damaged, without] = [
        SourceFailure::Dead,
        SourceFailure::Damaged,
        SourceFailure::Deferred,
    ]
    .map(|failure| names(failure).join(" and "));
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
    if !without.is_empty() {
        let others = [(dead, "failed, too"), (damaged, "has a damaged one")];
        let others = others
            .into_iter()
            .filter(|(buddies, _)| !buddies.is_empty());
        let others: String = others
            .map(|(buddies, why)| format!("; {buddies} {why}"))
            .collect();
        return message::replica_not_sent_again(worker, epoch, without, others).to_string();
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
