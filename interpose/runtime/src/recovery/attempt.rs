//! One attempt at a recovery, stage by stage.
#![allow(unsafe_code)]

use super::load::{self, Loaded};
use super::plan::{self, Identity, Plan, SPARE};
use super::{DRAIN_LIMIT, spare};
use crate::arch::Frame;
use crate::checkpoint::{self, Transfer};
use crate::errors::{SUCCESS, returns_errors};
use crate::generated::real;
use crate::handles::{self, VirtDatatype, VirtOp, real_datatype, real_op};
use crate::image::wire::SendOptions;
use crate::objects::comm;
use crate::real_types::RealComm;
use crate::world::{self, Part, succeeded};
use crate::{cut, events, fault, requests, ulfm, user};
use ckptd::events::{Kind, RecoveryStage, Spare, Worker};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// A further failure: everything from the start.
pub struct Again;

/// What a successful attempt leads to.
pub struct Outcome {
    /// Where the program goes on; `None` in a spare.
    pub frame: Option<Frame>,
    /// This process tells the user.
    pub is_speaker: bool,
}

/// What happened, for the user and the event file.
pub struct Report {
    /// Number of the recovery.
    pub recovery: u32,
    /// Launcher ranks that died.
    pub failed: Vec<u32>,
    takeovers: Vec<(u32, u32)>,
    stages: Vec<(RecoveryStage, u64)>,
    mark: Instant,
}

impl Report {
    /// An empty report.
    pub fn new(recovery: u32) -> Report {
        Report {
            recovery,
            failed: Vec::new(),
            takeovers: Vec::new(),
            stages: Vec::new(),
            mark: Instant::now(),
        }
    }

    /// Ends a stage.
    fn stage(&mut self, stage: RecoveryStage) {
        let ns = events::nanoseconds(self.mark);
        match self.stages.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, total)) => *total += ns,
            None => self.stages.push((stage, ns)),
        }
        self.mark = Instant::now();
        fault::stage_ended(stage, checkpoint::epoch());
    }

    /// Writes the stages to the event file.
    pub fn emit(&self) {
        for &(stage, ns) in &self.stages {
            events::emit(Kind::Stage {
                recovery: self.recovery,
                stage,
                ns,
            });
        }
        let world = world::get();
        for &(worker, player) in self
            .takeovers
            .iter()
            .filter(|(_, player)| *player == world.launcher_rank)
        {
            let from = Spare(player - world.worker_count.min(player));
            events::emit(Kind::Takeover {
                recovery: self.recovery,
                from,
                as_worker: Worker(worker),
            });
        }
    }

    /// One line for the user.
    pub fn summary(&self) -> String {
        let takeover =
            |(worker, player): &(u32, u32)| format!("worker {worker} died, spare rank {player} has taken its part");
        if self.takeovers.is_empty() {
            return format!("spare rank(s) {:?} died", self.failed);
        }
        self.takeovers.iter().map(takeover).collect::<Vec<_>>().join("; ")
    }
}

/// The communicators of the new world.
struct Communicators {
    workers: RealComm,
    private: RealComm,
    commit: RealComm,
}

const NULL: RealComm = RealComm(std::ptr::null_mut());

/// How long the others wait for the process that says why the job ends.
const SPEAKING_TIME: Duration = Duration::from_secs(2);

/// One attempt.
pub fn run(report: &mut Report) -> Result<Outcome, Again> {
    report.stage(RecoveryStage::Detect);
    revoke_all();
    report.stage(RecoveryStage::Revoke);
    let whole = end_own_requests();
    report.stage(RecoveryStage::Drain);
    let control = shrink();
    report.stage(RecoveryStage::Shrink);

    let planned = meet(control, whole).and_then(|plan| {
        note(report, &plan);
        report.stage(RecoveryStage::Agree);
        let communicators = make_communicators(control, &plan)?;
        Ok((plan, communicators))
    });
    let world = world::get();
    world.control = control;
    if !agree(control, planned.is_ok()) {
        if let Ok((_, Some(made))) = &planned {
            revoke(&[made.workers, made.private, made.commit]);
        }
        return Err(Again);
    }
    let Ok((plan, communicators)) = planned else {
        return Err(Again);
    };
    report.stage(RecoveryStage::Replace);

    let loaded = match &communicators {
        Some(made) => {
            (world.workers, world.private, world.commit) = (made.workers, made.private, made.commit);
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
    let frame = loaded.map(|loaded| settle(&plan, loaded));
    if frame.is_some() && requests::repost().is_err() {
        return Err(Again);
    }
    report.stage(RecoveryStage::Resume);
    let speaker = plan.takeovers.first().map_or(plan.players[0], |(_, player)| *player);
    Ok(Outcome {
        frame,
        is_speaker: speaker == world.launcher_rank,
    })
}

fn revoke(comms: &[RealComm]) {
    for &comm in comms.iter().filter(|comm| **comm != NULL) {
        // SAFETY: a communicator that exists; revoking twice has no effect.
        unsafe { ulfm::MPIX_Comm_revoke(comm) };
    }
}

/// Wakes everyone, wherever they wait.
fn revoke_all() {
    let world = world::get();
    if let Part::Worker(_) = world.part {
        comm::revoke_all();
    }
    revoke(&[world.workers, world.private, world.commit, world.control]);
}

/// Nothing of this process may still be under way when memory is loaded: all say so by entering the shrink.
fn end_own_requests() -> u64 {
    let mut left = requests::quiesce(DRAIN_LIMIT);
    if let Some(vote) = cut::abandon_vote() {
        left += drive_one(vote);
    }
    let whole = checkpoint::quiesce(DRAIN_LIMIT).unwrap_or(0);
    if left > 0 {
        crate::sys::say(format_args!(
            "{left} transfer(s) did not end within {} s after a failure, so memory cannot be rolled back safely; the job ends",
            DRAIN_LIMIT.as_secs()
        ));
        world::abort(75);
    }
    whole
}

fn drive_one(request: crate::real_types::RealRequest) -> usize {
    checkpoint::drive(&mut [request], DRAIN_LIMIT)
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
        world::abort(75);
    }
    returns_errors(control);
    control
}

/// Whether all living processes say so; the answer is the same everywhere.
fn agree(control: RealComm, ok: bool) -> bool {
    let mut flag = c_int::from(ok);
    if !ok {
        revoke(&[control]);
    }
    // SAFETY: works on a revoked communicator.
    let rc = unsafe { ulfm::MPIX_Comm_agree(control, &mut flag) };
    // A failure that is news to the agreement makes its return code an error, everywhere alike.
    flag != 0 && rc == SUCCESS
}

/// Everybody says who it is.
fn introduce(control: RealComm, whole: u64, abort: u64) -> Result<Vec<Identity>, c_int> {
    let world = world::get();
    let part = match world.part {
        Part::Worker(worker) => u64::from(worker),
        Part::Spare => SPARE,
    };
    let own = Identity {
        launcher_rank: u64::from(world.launcher_rank),
        part,
        committed: checkpoint::epoch(),
        whole,
        abort,
    };
    let mut size = 0;
    let bytes = handles::byte_type();
    let length = size_of::<Identity>() as c_int;
    // SAFETY: one identity from everybody.
    unsafe {
        real::PMPI_Comm_size(control, &mut size);
        let mut living = vec![Identity::default(); size as usize];
        let (from, to) = ((&raw const own).cast(), living.as_mut_ptr().cast());
        succeeded(real::PMPI_Allgather(from, length, bytes, to, length, bytes, control))?;
        Ok(living)
    }
}

/// Ends the job with everybody's knowledge: the meeting is the end of all who come to it.
pub fn announce_abort(code: c_int) {
    revoke_all();
    end_own_requests();
    let control = shrink();
    let _ = introduce(control, 0, 1 + u64::from(code as u32));
}

/// The same plan comes out everywhere.
fn meet(control: RealComm, whole: u64) -> Result<Plan, c_int> {
    let world = world::get();
    let living = introduce(control, whole, 0)?;
    if let Some(aborted) = living.iter().find(|living| living.abort != 0) {
        user::release_output();
        crate::sys::exit_now((aborted.abort - 1) as i32);
    }
    let plan = plan::make(&living, world.worker_count, world.offset)
        .unwrap_or_else(|lost| give_up(&lost.to_string(), &living));
    if plan.epoch == 0 {
        give_up(
            "a process failed during MPI_Init, before the first checkpoint; start the job again",
            &living,
        );
    }
    if let Some(behind) = living
        .iter()
        .find(|living| living.part != SPARE && living.committed != plan.epoch && living.whole != plan.epoch)
    {
        give_up(
            &format!(
                "worker {} is at epoch {} and cannot reach epoch {}",
                behind.part, behind.committed, plan.epoch
            ),
            &living,
        );
    }
    let dead: Vec<u32> = plan
        .takeovers
        .iter()
        .map(|(worker, _)| world.players[*worker as usize])
        .collect();
    collect_output(control, &dead, &plan)?;
    user::undo_files(plan.epoch);
    Ok(plan)
}

/// The job is lost: the living process with the lowest rank says why.
fn give_up(why: &str, living: &[Identity]) -> ! {
    let world = world::get();
    if living
        .iter()
        .all(|living| living.launcher_rank >= u64::from(world.launcher_rank))
    {
        crate::sys::say(format_args!("the job cannot be recovered: {why}"));
    } else {
        // Whoever ends the job ends the other processes of its node; the one that speaks is given time.
        std::thread::sleep(SPEAKING_TIME);
    }
    world::abort(75)
}

/// How much of its output each dead process has got out, as far as anyone on its node can tell.
fn collect_output(control: RealComm, dead: &[u32], plan: &Plan) -> Result<(), c_int> {
    if dead.is_empty() {
        return Ok(());
    }
    let own = user::dead_output(dead);
    let mut all = vec![[0u64; 2]; own.len()];
    let uint64 = real_datatype(VirtDatatype(handles::predefined_handle("ompi_mpi_uint64_t")));
    let max = real_op(VirtOp(handles::predefined_handle("ompi_mpi_op_max")));
    // SAFETY: two numbers for each dead process.
    unsafe {
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        succeeded(real::PMPI_Allreduce(
            from,
            to,
            2 * own.len() as c_int,
            uint64,
            max,
            control,
        ))?;
    }
    let me = world::get().launcher_rank;
    if let Some(index) = plan.takeovers.iter().position(|(_, player)| *player == me) {
        user::inherit_output(all[index]);
    }
    Ok(())
}

fn note(report: &mut Report, plan: &Plan) {
    let world = world::get();
    report
        .failed
        .extend(plan.takeovers.iter().map(|(worker, _)| world.players[*worker as usize]));
    report.takeovers.extend(&plan.takeovers);
}

/// The worker that this process plays by the plan.
fn part_in(plan: &Plan) -> Option<u32> {
    let me = world::get().launcher_rank;
    plan.players
        .iter()
        .position(|&player| player == me)
        .map(|worker| worker as u32)
}

/// Communicators of the workers; everybody takes part in the split.
fn make_communicators(control: RealComm, plan: &Plan) -> Result<Option<Communicators>, c_int> {
    let Some(workers) = world::split(control, part_in(plan))? else {
        return Ok(None);
    };
    let private = world::duplicate(workers)?;
    let commit = world::duplicate(workers)?;
    Ok(Some(Communicators {
        workers,
        private,
        commit,
    }))
}

/// Fetch, load, rebuild, re-protect: all workers, each with its part by the plan.
fn take_part(plan: &Plan, report: &mut Report) -> Result<Loaded, c_int> {
    let Some(me) = part_in(plan) else {
        return Err(crate::errors::ERR_INTERN);
    };
    checkpoint::resolve(plan.epoch);
    let is_new = plan.takeovers.iter().any(|(worker, _)| *worker == me);
    fetch(plan, me, is_new)?;
    report.stage(RecoveryStage::Fetch);
    let loaded = load::load(is_new);
    report.stage(RecoveryStage::Load);
    comm::drop_reals();
    comm::rebuild(world::get().workers)?;
    report.stage(RecoveryStage::Rebuild);
    protect_again(plan, me)?;
    report.stage(RecoveryStage::Reprotect);
    Ok(loaded)
}

fn drive(transfer: &mut Transfer, to: Option<u32>, from: Option<u32>) -> Result<(), c_int> {
    let mut rc = transfer.start(world::private(), to, from);
    while rc == SUCCESS && !transfer.is_done() {
        rc = transfer.poll(&mut checkpoint::keep().store);
    }
    if rc != SUCCESS {
        revoke_all();
        transfer.quiesce(DRAIN_LIMIT);
    }
    succeeded(rc)
}

/// The holders send the dead workers' copies to those who take their parts.
fn fetch(plan: &Plan, me: u32, is_new: bool) -> Result<(), c_int> {
    let world = world::get();
    let (count, offset) = (world.worker_count, world.offset);
    let keep = checkpoint::keep();
    if is_new {
        let mut transfer = Transfer::receive_only();
        drive(&mut transfer, None, Some((me + offset) % count))?;
        if let Some(payload) = transfer.take_received() {
            payload
                .apply(&mut keep.own, &mut keep.store)
                .unwrap_or_else(|error| checkpoint::fail("the copy of the dead rank is damaged", &error));
        }
    }
    let partner = (me + count - offset) % count;
    if plan.takeovers.iter().any(|(worker, _)| *worker == partner) {
        let outgoing = keep.partner.image.outgoing(&keep.store, SendOptions::default());
        drive(
            &mut Transfer::new(outgoing, keep.partner.state.clone()),
            Some(partner),
            None,
        )?;
    }
    Ok(())
}

/// Copies that died with their holder are made again: the partner of each understudy sends it its own.
fn protect_again(plan: &Plan, me: u32) -> Result<(), c_int> {
    let world = world::get();
    let (count, offset) = (world.worker_count, world.offset);
    let is_new = |worker: u32| plan.takeovers.iter().any(|(new, _)| *new == worker);
    let (holder, partner) = ((me + offset) % count, (me + count - offset) % count);
    let keep = checkpoint::keep();
    let to = is_new(holder).then_some(holder);
    let from = is_new(me).then_some(partner);
    if to.is_none() && from.is_none() {
        return Ok(());
    }
    let mut transfer = match to {
        Some(_) => Transfer::new(
            keep.own.image.outgoing(&keep.store, SendOptions::default()),
            keep.own.state.clone(),
        ),
        None => Transfer::receive_only(),
    };
    drive(&mut transfer, to, from)?;
    if let Some(payload) = transfer.take_received() {
        payload
            .apply(&mut keep.partner, &mut keep.store)
            .unwrap_or_else(|error| checkpoint::fail("the partner's copy is damaged", &error));
    }
    Ok(())
}

/// The attempt has succeeded everywhere: the plan is the world now.
fn settle(plan: &Plan, loaded: Loaded) -> Frame {
    let world = world::get();
    for &(worker, player) in plan
        .takeovers
        .iter()
        .filter(|(_, player)| *player == world.launcher_rank)
    {
        log::debug!("rank {player} plays worker {worker}");
        user::remove_ledger(world.players[worker as usize]);
    }
    world.players.clone_from(&plan.players);
    if let Some(worker) = part_in(plan) {
        world.part = Part::Worker(worker);
    }
    events::set_epoch(plan.epoch);
    spare::forget();
    loaded.frame
}
