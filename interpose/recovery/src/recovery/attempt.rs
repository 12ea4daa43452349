//! Attempts at a recovery: the work of each stage of [`understudy_policy::recovery_attempt`].

use super::load::{self, LoadOrigin, LoadedEpoch};
use super::meeting::{MeetingResult, end_if_directory_is_lost, end_lost_job, meet};
use super::rebuild_objects::rebuild_objects;
use super::report::RecoveryReport;
use super::repost::{recreate_recorded, repost};
use super::{fetch, joining, reported_replicas};
use crate::Runtime;
use crate::abort::abort_unless;
use crate::arch::Frame;
use crate::objects::{comm, window};
use crate::world::{self, Role};
use crate::{copies, daemon, disk, events, objects, reinit, static_data, user};
use understudy_formats::events::RecoveryStage;
use understudy_image::prefault::Prefault;
use understudy_mpi::real_types::RealComm;
use understudy_mpi::{self as mpi, in_flight};
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_attempt::{Attempt, AttemptEvent, AttemptStage};
use understudy_policy::recovery_plan::Plan;

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

/// Runs attempts until one succeeds.
///
/// The leader ends the job if too many attempts fail.
pub fn run(rt: &Runtime, report: &mut RecoveryReport) -> AttemptResult {
    let (mut attempt, mut work) = (Attempt::BEGIN, begin(rt, report));
    loop {
        if let AttemptStage::Resume = attempt.stage()
            && let Some(result) = work.take_result(rt)
        {
            return result;
        }
        let event = match work.perform(rt, report, attempt.stage()) {
            Ok(event) => event,
            Err(error) => {
                log::debug!("another failure: the recovery starts over: {error}");
                work = begin(rt, report);
                AttemptEvent::Failed
            }
        };
        attempt.step(event);
    }
}

fn begin(rt: &Runtime, report: &mut RecoveryReport) -> AttemptWork {
    // The wait in the failed call, perhaps a long one, has ended; waits of the recovery do not
    // continue it.
    crate::arch::end_wait();
    report.stage(rt, RecoveryStage::Detect);
    AttemptWork::default()
}

/// Results of the stages of one attempt, which later stages use.
#[derive(Default)]
struct AttemptWork {
    /// Communicator of all processes of the generation.
    all: Option<RealComm>,
    /// Epoch whose replicas in this process are complete, although this process has seen no commit.
    complete: Option<Epoch>,
    meeting: Option<MeetingResult>,
    /// Memory that is being made present, for the program and for stored replicas.
    prepared: [Option<Prefault>; 2],
    loaded: Option<LoadedEpoch>,
}

/// Returns the result of an earlier stage.
///
/// # Errors
/// Fails with [`mpi::Error::INTERN`] if there is none, which the order of the stages makes
/// impossible.
fn required<T>(result: &Option<T>) -> mpi::Result<&T> {
    result.as_ref().ok_or(mpi::Error::INTERN)
}

impl AttemptWork {
    /// Performs one stage.
    ///
    /// # Errors
    /// Fails if another process fails or a replica is damaged. The next attempt then uses other
    /// replicas.
    fn perform(
        &mut self,
        rt: &Runtime,
        report: &mut RecoveryReport,
        stage: AttemptStage,
    ) -> mpi::Result<AttemptEvent> {
        match stage {
            AttemptStage::Enter => {
                let (all, complete) = enter_next_generation(rt, report)?;
                (self.all, self.complete) = (Some(all), complete);
            }
            AttemptStage::Meet => {
                let meeting = meet(rt, *required(&self.all)?, self.complete)?;
                report.stage(rt, RecoveryStage::Agree);
                if self.meeting.insert(meeting).verdict.is_err() {
                    return Ok(AttemptEvent::JobLost);
                }
            }
            AttemptStage::SelectEpoch => {
                let plan = self.plan()?;
                let me = worker_in(rt, plan)?;
                let [workers, private] = world::workers_of(*required(&self.all)?, me)?;
                world::update(rt, |world| {
                    (world.workers, world.private) = (workers, private)
                });
                select_epoch(rt, plan)?;
            }
            AttemptStage::AwaitAgreement | AttemptStage::AwaitSuccess => {
                required(&self.all)?.barrier()?;
            }
            AttemptStage::UndoFiles => {
                report.stage(rt, RecoveryStage::Replace);
                end_if_directory_is_lost(rt, true);
                abort_unless(rt, user::undo_files(rt, self.plan()?.epoch));
            }
            AttemptStage::AwaitFiles => world::get(rt).workers.barrier()?,
            AttemptStage::Fetch => self.fetch(rt, report)?,
            AttemptStage::Load => self.load(rt, report)?,
            // Most workers load little; sleeping leaves the processors to those that load much.
            AttemptStage::AwaitLoads => world::get(rt).workers.sleeping_barrier()?,
            AttemptStage::RebuildObjects => {
                let plan = self.plan()?;
                rebuild_objects(rt, worker_in(rt, plan)?, &plan.process_of)?;
                report.stage(rt, RecoveryStage::Rebuild);
            }
            AttemptStage::Reprotect => {
                let plan = self.plan()?;
                let me = worker_in(rt, plan)?;
                fetch::defer_replicas(rt, plan, me);
                fetch::rebuild_replicas(rt, &plan.rebuilds, me)?;
                self.prepared = [None, None];
                report.stage(rt, RecoveryStage::Reprotect);
            }
            AttemptStage::Apply => {
                let (plan, dead) = (self.plan()?, self.dead(rt)?);
                report.record_success(rt, &dead, plan, &world::get(rt).process_of);
                apply_plan(rt, plan, required(&self.loaded)?);
                reported_replicas::record_success(rt);
            }
            AttemptStage::Repost => {
                recreate_recorded(rt).and_then(|()| repost(rt))?;
                report.stage(rt, RecoveryStage::Resume);
            }
            AttemptStage::Resume => {}
            AttemptStage::EndJob => self.end_job(rt, report)?,
        }
        Ok(AttemptEvent::Done)
    }

    fn plan(&self) -> mpi::Result<&Plan> {
        let verdict = &required(&self.meeting)?.verdict;
        verdict.as_ref().map_err(|_| mpi::Error::INTERN)
    }

    /// Returns the processes of workers that have died.
    fn dead(&self, rt: &Runtime) -> mpi::Result<Vec<ProcessNumber>> {
        let living = &required(&self.meeting)?.living;
        let is_dead = |process: &ProcessNumber| living.binary_search(process).is_err();
        let processes = world::get(rt).process_of.clone();
        Ok(processes.into_iter().filter(is_dead).collect())
    }

    /// Receives this worker's replica if this process has no intact one.
    ///
    /// Sends the replicas of other workers that this worker stores, if the plan requests them.
    fn fetch(&mut self, rt: &Runtime, report: &mut RecoveryReport) -> mpi::Result<()> {
        let plan = self.plan()?;
        let me = worker_in(rt, plan)?;
        window::shared::own_parts_of(me);
        let for_program = match plan.lost {
            Some(_) => None,
            None => fetch::fetch(rt, plan, me)?,
        };
        report.stage(rt, RecoveryStage::Fetch);
        let for_replicas = fetch::prepare_stored_replicas(rt, plan, me);
        self.prepared = [for_program, for_replicas];
        Ok(())
    }

    /// Restores the memory of the program.
    fn load(&mut self, rt: &Runtime, report: &mut RecoveryReport) -> mpi::Result<()> {
        let for_program = self.prepared[0].take();
        let plan = self.plan()?;
        let me = worker_in(rt, plan)?;
        let origin = match (plan.takeover(me), &plan.lost) {
            (Some(_), _) => LoadOrigin::Replacement,
            (None, Some(_)) => LoadOrigin::SurvivorWithReceived,
            (None, None) if plan.source(me).is_some() => LoadOrigin::SurvivorWithReceived,
            (None, None) => LoadOrigin::Survivor,
        };
        let loaded = load::load(rt, origin, for_program)
            .map_err(|damaged| reported_replicas::refuse_own(rt, plan, me, &damaged))?;
        self.loaded = Some(loaded);
        report.stage(rt, RecoveryStage::Load);
        Ok(())
    }

    /// Ends the job, which cannot continue.
    fn end_job(&self, rt: &Runtime, report: &mut RecoveryReport) -> mpi::Result<()> {
        let meeting = required(&self.meeting)?;
        if let Err(lost) = &meeting.verdict {
            report.record_deaths(rt, &self.dead(rt)?, &world::get(rt).process_of);
            report.emit(rt);
            end_lost_job(rt, &meeting.living, lost);
        }
        Ok(())
    }

    /// Returns the result of a successful attempt, once.
    fn take_result(&mut self, rt: &Runtime) -> Option<AttemptResult> {
        let loaded = self.loaded.take()?;
        let plan = self.plan().ok()?;
        let first = plan.takeovers.first();
        let reporter = first.map_or(plan.process_of[0], |takeover| takeover.process);
        Some(AttemptResult {
            frame: loaded.frame,
            signals: loaded.signals,
            exceptions: loaded.exceptions,
            reports_to_user: reporter == world::get(rt).process,
        })
    }
}

/// Enters a new generation of the job.
///
/// Returns the communicator of the generation's processes. The second result is the epoch whose
/// replicas in this process are complete, although this process has seen no commit.
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
    // Real MPI calls do nothing before the next generation begins. No operation needs to be
    // cancelled or freed: all operations have ended with the library state that was reset.
    let complete = copies::interrupt(rt);
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
    Ok((all, complete))
}

/// Stops the threads of a worker before files or memory are rolled back.
///
/// Does nothing in a joining process, which has no state to lose, and stops its threads when it
/// loads the state of a worker. In three cases the process of a worker ends and counts as one more
/// failed process: if its state cannot be rolled back, if it may use an accelerator, or if its
/// threads cannot be stopped.
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

/// Returns the worker that this process is in the plan.
fn worker_in(rt: &Runtime, plan: &Plan) -> mpi::Result<Worker> {
    plan.worker_of(world::get(rt).process)
        .ok_or(mpi::Error::INTERN)
}

/// Selects the epoch of the plan.
///
/// Afterwards this process can roll back to no other epoch.
///
/// Once all processes have selected the epoch, a later attempt cannot choose another one. Files may
/// therefore be rolled back then.
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
}
