//! Attempt at a recovery, stage by stage.

use super::load::{self, Loaded, Origin};
use super::meeting::{Meeting, give_up, meet};
use super::report::Report;
use super::repost::{make_recorded, repost};
use super::{fetch, found, newcomers};
use crate::Runtime;
use crate::arch::Frame;
use crate::ending::undone;
use crate::objects::{comm, tool, window};
use crate::world::{self, Part};
use crate::{
    copies, daemon, disk, events, objects, own_messages, rehearsal, rendezvous, renewal, user,
};
use understudy_formats::events::RecoveryStage;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_plan::Plan;

/// Error: another process has failed, so the recovery starts over.
pub struct Again;

/// Result of a successful attempt.
pub struct Outcome {
    /// Frame from which the program resumes.
    pub frame: Frame,
    /// Signals that were pending at this frame.
    pub signals: user::SavedSignals,
    pub exceptions: u32,
    /// True if this process reports the recovery to the user.
    pub is_speaker: bool,
}

pub fn run(rt: &Runtime, report: &mut Report) -> Result<Outcome, Again> {
    // The program's wait, perhaps a long one, is over.
    crate::arch::end_wait();
    report.stage(rt, RecoveryStage::Detect);
    let (all, whole) = renew(rt, report).map_err(|_| Again)?;
    let met = meet(rt, all, whole).and_then(|meeting| {
        report.stage(rt, RecoveryStage::Agree);
        if let Ok(plan) = &meeting.verdict {
            let [workers, private] = world::workers_of(all, part_in(rt, plan)?)?;
            world::update(rt, |world| {
                (world.workers, world.private) = (workers, private)
            });
            decide(rt, plan)?;
        }
        Ok(meeting)
    });
    let Meeting { living, verdict } = all_have(all, met)?;
    let world = world::get(rt);
    let dead = |player: &ProcessNumber| !living.contains(player);
    let dead: Vec<ProcessNumber> = world.players.iter().copied().filter(dead).collect();
    let plan = verdict.unwrap_or_else(|lost| {
        report.note_deaths(rt, &dead, &world.players);
        report.emit(rt);
        give_up(rt, &living, &lost)
    });
    report.stage(rt, RecoveryStage::Replace);

    let loaded = all_have(all, take_part(rt, &plan, report))?;
    report.settle(rt, &dead, &plan, &world.players);
    settle(rt, &plan, &loaded);
    found::settle(rt);
    if make_recorded(rt).is_err() || repost(rt).is_err() {
        return Err(Again);
    }
    report.stage(rt, RecoveryStage::Resume);
    let speaker = plan
        .takeovers
        .first()
        .map_or(plan.players[0], |it| it.player);
    Ok(Outcome {
        frame: loaded.frame,
        signals: loaded.signals,
        exceptions: loaded.exceptions,
        is_speaker: speaker == world.process,
    })
}

/// Enters a new generation of the job.
///
/// Returns the communicator of its processes, and the epoch whose replicas here are whole although
/// its commit was not seen.
fn renew(rt: &Runtime, report: &mut Report) -> mpi::Result<(RealComm, Option<Epoch>)> {
    if let Some(all) = newcomers::take_first(rt) {
        found::inherit(rt);
        return Ok((all, None));
    }
    stand_still(rt);
    let begin = renewal::leave_generation(rt);
    own_messages::all_is_back();
    report.stage(rt, RecoveryStage::Reset);
    // MPI calls do nothing before the next generation begins: operations in flight have ended with
    // the library state that was reset.
    let whole = copies::interrupt(rt);
    rehearsal::interrupt(rt);
    user::stop_children(rt);
    objects::release_local(rt);
    comm::drop_reals(rt);
    window::drop_reals(rt);
    report.stage(rt, RecoveryStage::Drain);
    match world::get(rt).part {
        Part::Newcomer => found::inherit(rt),
        Part::Worker(_) => drop(renewal::take_inheritance(rt)),
    }
    renewal::begin(rt, begin)?;
    let all = newcomers::gather_all(rt)?;
    report.stage(rt, RecoveryStage::Initialise);
    Ok((all, whole))
}

/// Stops the threads of a worker before files or memory are rolled back.
///
/// A joining process opens libraries first, and has no state to lose. A process ends, as one more
/// failed process, if its threads cannot be stopped, or if its devices cannot be rolled back with
/// its memory.
fn stand_still(rt: &Runtime) {
    let Part::Worker(_) = world::get(rt).part else {
        return;
    };
    if user::must_be_replaced(rt) {
        log::info!("process {} ends, to be replaced", std::process::id());
        crate::sys::kill_self();
    }
    if user::may_use_devices() {
        log::info!(
            "process {} uses an accelerator and ends, to be replaced",
            std::process::id()
        );
        crate::sys::kill_self();
    }
    if let Err(error) = user::stop_for_good(rt) {
        crate::sys::say(format_args!(
            "{error}; process {} ends, to be replaced",
            std::process::id()
        ));
        crate::sys::kill_self();
    }
}

/// Returns this process's result if all processes have reached this point.
///
/// A process with an error ends the generation, as other processes may wait for it elsewhere. Some
/// processes may already have passed the barrier. They meet the others in the next generation.
fn all_have<T>(all: RealComm, own: mpi::Result<T>) -> Result<T, Again> {
    let own = own.map_err(|_| Again)?;
    all.barrier().map(|()| own).map_err(|_| Again)
}

/// Returns the worker that this process is in the plan.
fn part_in(rt: &Runtime, plan: &Plan) -> mpi::Result<Worker> {
    plan.part_of(world::get(rt).process)
        .ok_or(mpi::Error::INTERN)
}

/// Selects the epoch of the plan; this process can roll back to no other then.
///
/// When all processes have reached this point, a later attempt cannot choose another epoch. So
/// files may be rolled back then.
fn decide(rt: &Runtime, plan: &Plan) -> mpi::Result<()> {
    if plan.lost.is_none() {
        found::resolve(rt, plan.epoch);
        return Ok(());
    }
    copies::give_up_pending(rt);
    copies::forget_legacy(rt);
    let me = part_in(rt, plan)?;
    found::refuse_partners(rt, me);
    fetch::fetch_from_disk(rt, me);
    Ok(())
}

/// Runs fetch, load, rebuild and re-protect for this process's worker of the plan.
fn take_part(rt: &Runtime, plan: &Plan, report: &mut Report) -> mpi::Result<Loaded> {
    let me = part_in(rt, plan)?;
    let is_new = plan.takeover(me).is_some();
    undone(rt, user::undo_files(rt, plan.epoch));
    // Barrier: every node has rolled back its files before any node opens one.
    world::get(rt).workers.barrier()?;
    window::shared::belong_to(me);
    let ready = match plan.lost {
        Some(_) => None,
        None => fetch::fetch(rt, plan, me)?,
    };
    report.stage(rt, RecoveryStage::Fetch);
    let expected = fetch::expect_partners(rt, plan, me);
    let origin = match (is_new, &plan.lost) {
        (true, _) => Origin::Understudy,
        (false, Some(_)) => Origin::SurvivorAnew,
        (false, None) if plan.source(me).is_some() => Origin::SurvivorAnew,
        (false, None) => Origin::Survivor,
    };
    let loaded = load::load(rt, origin, ready)
        .map_err(|damaged| found::refuse_own(rt, plan, me, &damaged))?;
    report.stage(rt, RecoveryStage::Load);
    // Most workers load little; sleeping leaves the processors to those that load much.
    world::get(rt).workers.sleeping_barrier()?;
    load::take_locks(rt);
    load::check_nodes(rt, &plan.players);
    comm::drop_reals(rt);
    comm::rebuild(rt, world::get(rt).workers, copies::epoch(rt))?;
    tool::rebuild(rt);
    window::rebuild(rt, &plan.players)?;
    rendezvous::show_again(rt, me)?;
    report.stage(rt, RecoveryStage::Rebuild);
    fetch::make_again(rt, &plan.remakes, me)?;
    drop(expected);
    report.stage(rt, RecoveryStage::Reprotect);
    Ok(loaded)
}

/// Applies the plan to the world, as all processes have succeeded.
fn settle(rt: &Runtime, plan: &Plan, loaded: &Loaded) {
    let world = world::get(rt);
    for takeover in plan
        .takeovers
        .iter()
        .filter(|it| it.player == world.process)
    {
        log::debug!("rank {} is worker {} now", takeover.player, takeover.worker);
        user::remove_ledger(rt, world.players[takeover.worker.index()]);
        {
            let keep = &mut *copies::keep(rt);
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
        daemon::playing(rt, takeover.worker);
    }
    world::update(rt, |world| {
        if let Some(worker) = plan.part_of(world.process) {
            world.part = Part::Worker(worker);
        }
        world.players.clone_from(&plan.players);
    });
    disk::go_on_from(rt, world::worker(rt), plan.epoch);
    events::set_epoch(plan.epoch);
    found::forget_refusals(rt);
}
