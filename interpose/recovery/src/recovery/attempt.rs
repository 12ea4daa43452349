//! Attempt at a recovery, stage by stage.

use super::load::{self, LoadOrigin, LoadedEpoch};
use super::meeting::{Meeting, end_lost_job, meet};
use super::report::RecoveryReport;
use super::repost::{recreate_recorded, repost};
use super::{fetch, joining, reported_replicas};
use crate::Runtime;
use crate::abort::abort_unless;
use crate::arch::Frame;
use crate::objects::{comm, tool, window};
use crate::world::{self, Role};
use crate::{copies, daemon, disk, events, objects, reinit, rendezvous, static_data, user};
use understudy_formats::events::RecoveryStage;
use understudy_mpi::real_types::RealComm;
use understudy_mpi::{self as mpi, in_flight};
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_plan::Plan;

/// Error: another process has failed, so the recovery starts over.
pub struct FurtherFailure;

/// Result of a successful attempt.
pub struct AttemptResult {
    /// Frame from which the program resumes.
    pub frame: Frame,
    /// Signals that were pending at this frame.
    pub signals: user::SignalState,
    pub exceptions: u32,
    /// True if this process reports the recovery to the user.
    pub reports_to_user: bool,
}

pub fn run(rt: &Runtime, report: &mut RecoveryReport) -> Result<AttemptResult, FurtherFailure> {
    // The program's wait, perhaps a long one, is over.
    crate::arch::end_wait();
    report.stage(rt, RecoveryStage::Detect);
    let (all, whole) = enter_next_generation(rt, report).map_err(|_| FurtherFailure)?;
    let met = meet(rt, all, whole).and_then(|meeting| {
        report.stage(rt, RecoveryStage::Agree);
        if let Ok(plan) = &meeting.verdict {
            let [workers, private] = world::workers_of(all, worker_in(rt, plan)?)?;
            world::update(rt, |world| {
                (world.workers, world.private) = (workers, private)
            });
            select_epoch(rt, plan)?;
        }
        Ok(meeting)
    });
    let Meeting { living, verdict } = after_barrier(all, met)?;
    let world = world::get(rt);
    let dead = |process: &ProcessNumber| !living.contains(process);
    let dead: Vec<ProcessNumber> = world.process_of.iter().copied().filter(dead).collect();
    let plan = verdict.unwrap_or_else(|lost| {
        report.record_deaths(rt, &dead, &world.process_of);
        report.emit(rt);
        end_lost_job(rt, &living, &lost)
    });
    report.stage(rt, RecoveryStage::Replace);

    let loaded = after_barrier(all, restore_worker(rt, &plan, report))?;
    report.record_success(rt, &dead, &plan, &world.process_of);
    apply_plan(rt, &plan, &loaded);
    reported_replicas::record_success(rt);
    if recreate_recorded(rt).is_err() || repost(rt).is_err() {
        return Err(FurtherFailure);
    }
    report.stage(rt, RecoveryStage::Resume);
    let speaker = plan
        .takeovers
        .first()
        .map_or(plan.process_of[0], |it| it.process);
    Ok(AttemptResult {
        frame: loaded.frame,
        signals: loaded.signals,
        exceptions: loaded.exceptions,
        reports_to_user: speaker == world.process,
    })
}

/// Enters a new generation of the job.
///
/// Returns the communicator of its processes, and the epoch whose replicas here are whole although
/// its commit was not seen.
fn enter_next_generation(
    rt: &Runtime,
    report: &mut RecoveryReport,
) -> mpi::Result<(RealComm, Option<Epoch>)> {
    if let Some(all) = joining::take_first(rt) {
        reported_replicas::adopt_replicas(rt);
        return Ok((all, None));
    }
    stop_threads(rt);
    let begin = reinit::leave_instance(rt);
    report.stage(rt, RecoveryStage::Reset);
    // MPI calls do nothing before the next generation begins: operations in flight have ended with
    // the library state that was reset.
    let whole = copies::interrupt(rt);
    static_data::interrupt(rt);
    user::stop_children(rt);
    objects::release_local(rt);
    comm::discard_reals(rt);
    window::discard_reals(rt);
    report.stage(rt, RecoveryStage::Drain);
    match world::get(rt).role {
        Role::Joining => reported_replicas::adopt_replicas(rt),
        Role::Worker(_) => drop(reinit::take_store(rt)),
    }
    reinit::begin(rt, begin)?;
    in_flight::free_kept();
    let all = joining::gather_all(rt)?;
    report.stage(rt, RecoveryStage::Initialise);
    Ok((all, whole))
}

/// Stops the threads of a worker before files or memory are rolled back.
///
/// A joining process opens libraries first, and has no state to lose. A process ends, as one more
/// failed process, if its threads cannot be stopped, or if its devices cannot be rolled back with
/// its memory.
fn stop_threads(rt: &Runtime) {
    let Role::Worker(_) = world::get(rt).role else {
        return;
    };
    if user::must_be_replaced(rt) {
        log::info!("process {} ends, to be replaced", std::process::id());
        crate::system_calls::kill_self();
    }
    if user::may_use_devices() {
        log::info!(
            "process {} uses an accelerator and ends, to be replaced",
            std::process::id()
        );
        crate::system_calls::kill_self();
    }
    if let Err(error) = user::stop_for_good(rt) {
        crate::system_calls::print_message(format_args!(
            "{error}; process {} ends, to be replaced",
            std::process::id()
        ));
        crate::system_calls::kill_self();
    }
}

/// Returns this process's result if all processes have reached this point.
///
/// A process with an error ends the generation, as other processes may wait for it elsewhere. Some
/// processes may already have passed the barrier. They meet the others in the next generation.
fn after_barrier<T>(all: RealComm, own: mpi::Result<T>) -> Result<T, FurtherFailure> {
    let own = own.map_err(|_| FurtherFailure)?;
    all.barrier().map(|()| own).map_err(|_| FurtherFailure)
}

/// Returns the worker that this process is in the plan.
fn worker_in(rt: &Runtime, plan: &Plan) -> mpi::Result<Worker> {
    plan.worker_of(world::get(rt).process)
        .ok_or(mpi::Error::INTERN)
}

/// Selects the epoch of the plan; this process can roll back to no other then.
///
/// A later attempt cannot choose another epoch once all processes have reached this point. Files
/// may therefore be rolled back then.
fn select_epoch(rt: &Runtime, plan: &Plan) -> mpi::Result<()> {
    if plan.lost.is_none() {
        reported_replicas::resolve_pending(rt, plan.epoch);
        return Ok(());
    }
    copies::discard_pending(rt);
    copies::invalidate_store(rt);
    let me = worker_in(rt, plan)?;
    reported_replicas::refuse_stored(rt, me);
    fetch::fetch_from_disk(rt, me);
    Ok(())
}

/// Runs fetch, load, rebuild and re-protect for this process's worker of the plan.
fn restore_worker(
    rt: &Runtime,
    plan: &Plan,
    report: &mut RecoveryReport,
) -> mpi::Result<LoadedEpoch> {
    let me = worker_in(rt, plan)?;
    let is_new = plan.takeover(me).is_some();
    abort_unless(rt, user::undo_files(rt, plan.epoch));
    // Barrier: every node has rolled back its files before any node opens one.
    world::get(rt).workers.barrier()?;
    window::shared::own_parts_of(me);
    let ready = match plan.lost {
        Some(_) => None,
        None => fetch::fetch(rt, plan, me)?,
    };
    report.stage(rt, RecoveryStage::Fetch);
    let expected = fetch::prepare_stored_replicas(rt, plan, me);
    let origin = match (is_new, &plan.lost) {
        (true, _) => LoadOrigin::Replacement,
        (false, Some(_)) => LoadOrigin::SurvivorWithReceived,
        (false, None) if plan.source(me).is_some() => LoadOrigin::SurvivorWithReceived,
        (false, None) => LoadOrigin::Survivor,
    };
    let loaded = load::load(rt, origin, ready)
        .map_err(|damaged| reported_replicas::refuse_own(rt, plan, me, &damaged))?;
    report.stage(rt, RecoveryStage::Load);
    // Most workers load little; sleeping leaves the processors to those that load much.
    world::get(rt).workers.sleeping_barrier()?;
    load::lock_files(rt);
    load::check_nodes(rt, &plan.process_of);
    comm::discard_reals(rt);
    comm::rebuild(rt, world::get(rt).workers, copies::committed_epoch(rt))?;
    tool::rebuild(rt);
    window::rebuild(rt, &plan.process_of)?;
    rendezvous::republish_board(rt, me)?;
    report.stage(rt, RecoveryStage::Rebuild);
    fetch::rebuild_replicas(rt, &plan.rebuilds, me)?;
    drop(expected);
    report.stage(rt, RecoveryStage::Reprotect);
    Ok(loaded)
}

/// Applies the plan to the world, as all processes have succeeded.
fn apply_plan(rt: &Runtime, plan: &Plan, loaded: &LoadedEpoch) {
    let world = world::get(rt);
    for takeover in plan
        .takeovers
        .iter()
        .filter(|it| it.process == world.process)
    {
        log::debug!(
            "rank {} is worker {} now",
            takeover.process,
            takeover.worker
        );
        user::remove_ledger(rt, world.process_of[takeover.worker.index()]);
        {
            let keep = &mut *copies::replicas(rt);
            let (own, on_disk) = (&keep.own, loaded.on_disk);
            disk::take_over(
                rt,
                takeover.worker,
                on_disk,
                &mut keep.store,
                &own.image,
                &own.state.bytes,
            );
        }
        daemon::report_replacing(rt, takeover.worker);
    }
    world::update(rt, |world| {
        if let Some(worker) = plan.worker_of(world.process) {
            world.role = Role::Worker(worker);
        }
        world.process_of.clone_from(&plan.process_of);
    });
    disk::resume_from(rt, world::worker(rt), plan.epoch);
    events::set_epoch(plan.epoch);
    reported_replicas::clear_refusals(rt);
}
