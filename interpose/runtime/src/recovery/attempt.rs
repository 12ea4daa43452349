//! One attempt at a recovery, stage by stage.
#![allow(unsafe_code)]

use super::load::{self, Loaded, Origin};
use super::meeting::{Meeting, give_up, introduce, meet};
use super::plan::{Identity, Plan};
use super::report::Report;
use super::repost::repost;
use super::retired::{free_old, retire};
use super::{DRAIN_LIMIT, abort, copies, newcomers, spare};
use crate::arch::Frame;
use crate::errors::{SUCCESS, returns_errors};
use crate::generated::real;
use crate::objects::comm;
use crate::world::{self, Part};
use crate::{checkpoint, daemon, disk, events, objects, rehearsal, renewal, requests, schedule, user};
use ckptd::events::RecoveryStage;
use std::ffi::c_int;
use understudy_mpi::real_types::RealComm;
use understudy_mpi::ulfm;

/// A further failure: everything from the start.
pub struct Again;

/// What a successful attempt leads to.
pub struct Outcome {
    /// Where the program goes on; `None` in a spare.
    pub frame: Option<Frame>,
    /// This process tells the user.
    pub is_speaker: bool,
}

/// The communicators of the new world.
struct Communicators {
    workers: RealComm,
    private: RealComm,
}

const NULL: RealComm = RealComm(std::ptr::null_mut());

/// One attempt.
pub fn run(report: &mut Report) -> Result<Outcome, Again> {
    // What the program has waited for, perhaps for long.
    crate::arch::end_wait();
    report.stage(RecoveryStage::Detect);
    let (control, whole) = match renewal::is_on() {
        true => renew(report).map_err(|_| Again)?,
        false => repair(report),
    };

    let met = meet(control, whole).and_then(|meeting| {
        report.stage(RecoveryStage::Agree);
        let communicators = match &meeting.verdict {
            Ok(plan) => make_communicators(control, plan)?,
            Err(_) => None,
        };
        Ok((meeting, communicators))
    });
    retire([world::get().control]);
    world::update(|world| world.control = control);
    if !agree(control, met.is_ok()) {
        if let Ok((_, Some(made))) = &met {
            revoke(&[made.workers, made.private]);
            retire([made.workers, made.private]);
        }
        return Err(Again);
    }
    let Ok((Meeting { living, verdict }, communicators)) = met else {
        return Err(Again);
    };
    let world = world::get();
    let dead: Vec<u32> = world
        .living
        .iter()
        .copied()
        .filter(|rank| !living.contains(rank))
        .collect();
    let plan = verdict.unwrap_or_else(|lost| {
        report.note_deaths(&dead, &world.players);
        report.emit();
        give_up(control, &living, &lost)
    });
    report.stage(RecoveryStage::Replace);

    let loaded = match &communicators {
        Some(made) => {
            let world = world::get();
            retire([world.workers, world.private]);
            world::update(|world| (world.workers, world.private) = (made.workers, made.private));
            let loaded = take_part(&plan, report);
            if loaded.is_err() {
                revoke_all();
            }
            loaded.map(Some)
        }
        None => Ok(None),
    };
    if !agree(control, loaded.is_ok()) {
        return Err(Again);
    }
    let Ok(loaded) = loaded else { return Err(Again) };
    report.settle(&dead, &plan, &world.players);
    free_old();
    world::update(|world| world.living = living);
    let frame = loaded.map(|loaded| settle(&plan, loaded));
    // Idle spares, too: one of them may tell of the next death.
    world::update(|world| world.players.clone_from(&plan.players));
    copies::settle(frame.is_some());
    if frame.is_some() && repost().is_err() {
        return Err(Again);
    }
    report.stage(RecoveryStage::Resume);
    let speaker = plan.takeovers.first().map_or(plan.players[0], |it| it.player);
    Ok(Outcome {
        frame,
        is_speaker: speaker == world.launcher_rank,
    })
}

/// The living processes in one communicator, which is made of a damaged one; and what [`end_own_requests`] gives.
fn repair(report: &mut Report) -> (RealComm, u64) {
    revoke_all();
    report.stage(RecoveryStage::Revoke);
    let whole = end_own_requests();
    report.stage(RecoveryStage::Drain);
    let control = shrink();
    report.stage(RecoveryStage::Shrink);
    (control, whole)
}

/// The same by a new generation of the job, in which the library is initialised again.
fn renew(report: &mut Report) -> Result<(RealComm, u64), c_int> {
    if let Some(control) = newcomers::take_first() {
        copies::inherit();
        return Ok((control, 0));
    }
    let begin = renewal::leave_generation();
    report.stage(RecoveryStage::Revoke);
    // Calls do nothing before the generation begins: what is under way has ended with the library that it was given to.
    let whole = end_own_requests();
    objects::release_local();
    comm::drop_reals();
    spare::forget();
    report.stage(RecoveryStage::Drain);
    match world::get().part {
        Part::Spare => copies::inherit(),
        Part::Worker(_) => drop(renewal::take_inheritance()),
    }
    renewal::begin(begin)?;
    let control = newcomers::gather_all()?;
    report.stage(RecoveryStage::Shrink);
    Ok((control, whole))
}

fn revoke(comms: &[RealComm]) {
    if renewal::is_on() {
        return;
    }
    for &comm in comms.iter().filter(|comm| **comm != NULL) {
        // SAFETY: a communicator that exists; revoking twice has no effect.
        unsafe { ulfm::MPIX_Comm_revoke(comm) };
    }
}

/// Wakes everyone, wherever they wait.
pub fn revoke_all() {
    if renewal::is_on() {
        return;
    }
    // Also in a spare: it may have come as far as making the communicators of the part that it was to take.
    comm::revoke_all();
    let world = world::get();
    revoke(&[world.workers, world.private, world.control]);
}

/// Nothing of this process may still be under way when memory is loaded: all say so by entering the shrink.
fn end_own_requests() -> u64 {
    let left = requests::quiesce(DRAIN_LIMIT) + schedule::quiesce(DRAIN_LIMIT) + rehearsal::quiesce(DRAIN_LIMIT);
    let whole = checkpoint::quiesce(DRAIN_LIMIT).unwrap_or(0);
    if left > 0 {
        crate::sys::say(format_args!(
            "{left} transfer(s) did not end within {} s after a failure, so memory cannot be rolled back safely; the job ends",
            DRAIN_LIMIT.as_secs()
        ));
        abort(understudy_abi::exit::LOST);
    }
    whole
}

fn shrink() -> RealComm {
    let mut control = NULL;
    // SAFETY: works on a revoked communicator, and only returns when all living members have called it.
    let rc = unsafe { ulfm::MPIX_Comm_shrink(world::get().control, &mut control) };
    if rc != SUCCESS {
        crate::sys::say(format_args!(
            "the living processes cannot be brought together (MPIX_Comm_shrink: {}); the job ends",
            crate::errors::text(rc)
        ));
        abort(understudy_abi::exit::LOST);
    }
    returns_errors(control);
    control
}

/// Whether all living processes say so. With ULFM the answer is the same everywhere. Where a generation of the job fails, who
/// does not say so ends it, as others may wait for this process elsewhere; some may take it for a success, and meet the others in the
/// next one.
fn agree(control: RealComm, ok: bool) -> bool {
    let mut flag = c_int::from(ok);
    if renewal::is_on() {
        // SAFETY: a collective over all.
        return ok && unsafe { real::PMPI_Barrier(control) } == SUCCESS;
    }
    if !ok {
        revoke(&[control]);
    }
    // SAFETY: works on a revoked communicator.
    let rc = unsafe { ulfm::MPIX_Comm_agree(control, &mut flag) };
    // A failure that is news to the agreement makes its return code an error, everywhere alike.
    flag != 0 && rc == SUCCESS
}

/// Ends the job with everybody's knowledge: the meeting is the end of all who come to it.
pub fn announce_abort(code: c_int) {
    revoke_all();
    end_own_requests();
    let control = shrink();
    // It asks nobody else: the end may come while copies are in use, for want of memory, say.
    let own = Identity {
        abort: 1 + u64::from(code as u32),
        ..Identity::default()
    };
    let _ = introduce(control, own);
}

/// The worker that this process plays by the plan.
fn part_in(plan: &Plan) -> Option<u32> {
    plan.part_of(world::get().launcher_rank)
}

/// Communicators of the workers; everybody takes part in the split.
fn make_communicators(control: RealComm, plan: &Plan) -> Result<Option<Communicators>, c_int> {
    let Some(workers) = world::split(control, part_in(plan))? else {
        return Ok(None);
    };
    let private = world::duplicate(workers)?;
    Ok(Some(Communicators { workers, private }))
}

/// Fetch, load, rebuild, re-protect: all workers, each with its part by the plan.
fn take_part(plan: &Plan, report: &mut Report) -> Result<Loaded, c_int> {
    let Some(me) = part_in(plan) else {
        return Err(crate::errors::ERR_INTERN);
    };
    let is_new = plan.takeover(me).is_some();
    let ready = if plan.lost.is_some() {
        checkpoint::give_up_pending();
        checkpoint::forget_legacy();
        copies::fetch_from_disk();
        None
    } else {
        copies::resolve(plan.epoch);
        copies::fetch(plan, me)?
    };
    report.stage(RecoveryStage::Fetch);
    let expected = copies::expect_partners(plan, me);
    let origin = match (is_new, &plan.lost) {
        (true, _) => Origin::Understudy,
        (false, Some(_)) => Origin::SurvivorAnew,
        (false, None) if plan.source(me).is_some() => Origin::SurvivorAnew,
        (false, None) => Origin::Survivor,
    };
    let loaded = load::load(origin, ready).map_err(|damaged| copies::refuse_own(plan, me, &damaged))?;
    report.stage(RecoveryStage::Load);
    retire(comm::drop_reals());
    comm::rebuild(world::get().workers, checkpoint::epoch())?;
    report.stage(RecoveryStage::Rebuild);
    copies::make_again(&plan.remakes, me)?;
    drop(expected);
    report.stage(RecoveryStage::Reprotect);
    Ok(loaded)
}

/// The attempt has succeeded everywhere: the plan is the world now.
fn settle(plan: &Plan, loaded: Loaded) -> Frame {
    let world = world::get();
    for takeover in plan.takeovers.iter().filter(|it| it.player == world.launcher_rank) {
        log::debug!("rank {} plays worker {}", takeover.player, takeover.worker);
        user::remove_ledger(world.players[takeover.worker as usize]);
        {
            let keep = &mut *checkpoint::keep();
            let (own, on_disk) = (&keep.own, loaded.on_disk);
            disk::take_over(takeover.worker, on_disk, &mut keep.store, &own.image, &own.state.bytes);
        }
        daemon::playing(takeover.worker);
    }
    world::update(|world| {
        if let Some(worker) = plan.part_of(world.launcher_rank) {
            world.part = Part::Worker(worker);
        }
    });
    if plan.lost.is_some() {
        disk::go_on_from(world::worker());
    }
    events::set_epoch(plan.epoch);
    copies::forget_refusals();
    spare::forget();
    loaded.frame
}
