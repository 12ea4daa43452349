//! Memory that a survivor restores by undoing the program's steps (`understudy_reversible`).
//!
//! The survivor then needs no replica of this memory in its own process. The method is reverse
//! computation, by which survivors roll back in Perumalla and Park: "Reverse computation for
//! rollback-based fault tolerance in large parallel systems" (2014). A replacement of a dead
//! worker starts from the buddy's replica, which contains these pages.
//!
//! ```text
//!   undo      the program's undo functions run on the program's stack. No memory is restored yet,
//!             so that the functions find the program's progress in it
//!   load      mappings are restored
//!   compare   with the checksums of the epoch. If all are equal, these pages stay. Otherwise this
//!             replica counts as damaged, and the buddy's is loaded
//! ```
//!
//! A wrong function therefore costs time, but does not change the result. A function that faults,
//! calls MPI or does not return is stopped.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::annotations::{self, FunctionRegion, SavedAnnotations};
use crate::arch::{self, StopReason};
use crate::recompute::is_mapped;
use crate::{abort, copies, events, fault, process_info, system_calls, user, world};
use std::ffi::c_void;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_image::absent_pages::{self, PageSums};
use understudy_image::layout::Layout;
use understudy_image::opened::{NeededAccess, OpenedAreas};
use understudy_image::pages::{self, PageIndex, PageRun};
use understudy_image::process_memory;
use understudy_image::sums::page_sum;
use understudy_numbers::Epoch;

/// Minimum time limit of all functions together.
///
/// The limit grows by [`LIMIT_FACTOR`] times the time since the epoch.
const MIN_TIME_LIMIT: Duration = Duration::from_secs(2);
const LIMIT_FACTOR: u32 = 3;

/// Reason why steps were not undone.
#[derive(Debug, thiserror::Error)]
pub enum StepBackError {
    /// The annotation was removed, or its memory is not mapped or not writable.
    #[error("the program has withdrawn the function, or unmapped the memory")]
    NoFunction,
    /// `understudy_step` was omitted, or called twice for a step.
    #[error("steps since the checkpoint are not numbered one by one")]
    Numbers,
    /// The function has refused.
    #[error("the function has answered that it cannot undo step {0}")]
    Declined(i64),
    /// The function did not return.
    #[error("the function was stopped: {0}")]
    Stopped(&'static str),
    /// Another process has died, or needs another replica.
    #[error("the recovery has begun again")]
    Restarted,
}

/// Result of running the program's undo functions.
pub struct UndoResult {
    steps: u64,
    began: Instant,
    outcome: Result<(), StepBackError>,
}

/// Returns the pages that this process's own replica can omit, in ascending order.
///
/// The buddy's replica contains these pages. Checkpoints on disk and parity need the pages in the
/// own replica, so the result is empty in jobs with a disk level, with parity or without a buddy.
/// The result is also empty if the functions are not trusted, or if `at_point` is false: the
/// checkpoint is then inside a step, and undoing whole steps does not lead back to the checkpoint.
pub fn elidable_pages(rt: &Runtime, at_point: bool) -> Vec<PageRun> {
    let redundancy = &world::get(rt).redundancy;
    let has_buddy =
        !redundancy.is_parity() && redundancy.buddies_of(world::worker(rt)).next().is_some();
    if at_point
        && has_buddy
        && process_info::config().disk.is_none()
        && annotations::trusts_functions(rt)
    {
        annotations::saved_annotations(rt).reversible_pages()
    } else {
        Vec::new()
    }
}

/// Undoes the steps since the epoch of `then`, if the own replica omits reversible pages.
pub fn undo(rt: &Runtime, then: &SavedAnnotations) -> Option<UndoResult> {
    (!lacking_pages(rt, then).is_empty()).then(|| undo_steps(rt, then))
}

/// Returns the reversible pages that this process's own replica omits.
fn lacking_pages(rt: &Runtime, then: &SavedAnnotations) -> Vec<PageSums> {
    absent_pages::among(
        copies::replicas(rt).own.image.absent(),
        &then.reversible_pages(),
    )
}

fn undo_steps(rt: &Runtime, then: &SavedAnnotations) -> UndoResult {
    let began = Instant::now();
    let mut run = UndoRun {
        regions: Vec::new(),
        last: 0,
        steps: 0,
        undone: 0,
        epoch: copies::committed_epoch(rt),
        declined: None,
    };
    let outcome = prepare(rt, then, &mut run).and_then(|opened| {
        let limit = MIN_TIME_LIMIT + copies::committed_age(rt) * LIMIT_FACTOR;
        // SAFETY: `run_all` has no values to drop when it is stopped. Memory that a stopped
        // function has changed in part is restored afterwards.
        let stopped = arch::without_mpi(arch::stop_at_mpi_call, || unsafe {
            arch::call_stoppable(limit, &mut run, run_all)
        });
        // An error is ignored: a recovery restores the mappings next, and after a test the areas
        // only stay writable.
        let _ = opened.close();
        run.outcome(stopped)
    });
    UndoResult {
        steps: run.undone,
        began,
        outcome,
    }
}

/// Iterates over the pages that contain parts of regions.
fn touched(marks: &SavedAnnotations) -> impl Iterator<Item = PageIndex> + use<> {
    let pages = marks
        .reversible()
        .iter()
        .map(|region| region.memory.pages())
        .collect();
    let pages = pages::normalise(pages).into_iter();
    pages.flat_map(|run| (run.start.0..run.end()).map(PageIndex))
}

/// Tests the undo functions before a capture, if `UNDERSTUDY_POISON` is set.
///
/// Undoes the steps since the last epoch, compares the pages with the checksums of the epoch, and
/// writes the current bytes back. If a page differs, this process does not trust its functions any
/// more.
pub fn test_functions(rt: &Runtime) {
    if !process_info::config().poison || !annotations::trusts_functions(rt) {
        return;
    }
    let state = copies::replicas(rt).own.state.clone();
    let Ok(then) = copies::decode(&state.bytes).map(|saved| saved.marks) else {
        return;
    };
    let lacked = lacking_pages(rt, &then);
    if lacked.is_empty() {
        return;
    }
    let mut now = Vec::new();
    for page in touched(&annotations::saved_annotations(rt)) {
        let mut content = [0; PAGE_SIZE];
        now.extend(
            process_memory::read_own_memory(page.addr(), &mut content).then_some((page, content)),
        );
    }
    let undone = undo_steps(rt, &then);
    let (_, wrong) = right_and_wrong(&lacked);
    let memory = process_memory::open_memory_for_writing();
    let put_back = memory.and_then(|memory| {
        let mut pages = now.iter();
        pages.try_for_each(|(page, content)| memory.write_all_at(content, page.addr()))
    });
    put_back
        .unwrap_or_else(|error| abort::abort_with_error(rt, message::STEPS_NOT_RESTORED, &error));
    if wrong > 0 {
        annotations::distrust(rt);
        system_calls::print_message(message::undo_wrong(undone.steps, undone.why()));
    }
}

impl UndoResult {
    /// Returns the reason why pages differ.
    fn why(&self) -> String {
        match &self.outcome {
            Err(why) => why.to_string(),
            Ok(()) => "the function does not restore the bytes of the checkpoint".into(),
        }
    }
}

/// Returns the pages with the right content, and the number of wrong pages.
fn right_and_wrong(pages: &[PageSums]) -> (Vec<PageRun>, u64) {
    let (mut right, mut wrong, mut content) = (Vec::new(), 0, [0; PAGE_SIZE]);
    for (page, sum) in pages.iter().flat_map(PageSums::each) {
        if process_memory::read_own_memory(page.addr(), &mut content)
            && page_sum(page, &content) == sum
        {
            pages::push(&mut right, PageRun::between(page.0, page.0 + 1));
        } else {
            wrong += 1;
        }
    }
    (right, wrong)
}

/// Makes the regions of `then` writable, and counts the steps since.
///
/// # Errors
/// Fails if a region does not exist any more, or if the steps are not numbered consecutively.
fn prepare(
    rt: &Runtime,
    then: &SavedAnnotations,
    run: &mut UndoRun,
) -> Result<OpenedAreas, StepBackError> {
    let now = annotations::saved_annotations(rt);
    let layout =
        Layout::read_self(user::ProgramState::zones()).map_err(|_| StepBackError::NoFunction)?;
    let was_there = |region: &&FunctionRegion| {
        then.reversible()
            .iter()
            .any(|it| it.memory == region.memory)
    };
    run.regions = now.reversible().iter().filter(was_there).copied().collect();
    let are_mapped = run
        .regions
        .iter()
        .all(|region| is_mapped(&layout, region.memory));
    if run.regions.len() < then.reversible().len() || !are_mapped {
        return Err(StepBackError::NoFunction);
    }
    run.last = now.steps().last;
    run.steps = now
        .steps()
        .since(&then.steps())
        .ok_or(StepBackError::Numbers)?;
    OpenedAreas::open(&layout, &then.reversible_pages(), NeededAccess::Write)
        .map_err(|_| StepBackError::NoFunction)
}

/// Steps to undo.
struct UndoRun {
    regions: Vec<FunctionRegion>,
    last: i64,
    steps: u64,
    /// Number of undone steps.
    undone: u64,
    epoch: Epoch,
    declined: Option<i64>,
}

impl UndoRun {
    /// Makes the functions undo a step, in reverse order; returns true if all have succeeded.
    fn undo(&mut self, step: i64, is_partial: bool) -> bool {
        for region in self.regions.iter().rev() {
            let (start, bytes) = (region.memory.start, region.memory.len());
            // SAFETY: the program has registered this function for these arguments, and is
            // responsible for its memory accesses.
            let answer = unsafe {
                let function = region.function as *const c_void;
                arch::call_user(
                    function,
                    start,
                    bytes,
                    step as u64,
                    is_partial.into(),
                    region.argument,
                )
            };
            if answer as i32 != 0 {
                self.declined = Some(step);
                return false;
            }
        }
        true
    }

    fn outcome(&self, stopped: Option<StopReason>) -> Result<(), StepBackError> {
        match (stopped, self.declined) {
            (None, None) => Ok(()),
            (None, Some(step)) => Err(StepBackError::Declined(step)),
            (Some(StopReason::Restart), _) => Err(StepBackError::Restarted),
            (Some(StopReason::Fault), _) => {
                Err(StepBackError::Stopped("it has caused a fatal signal"))
            }
            (Some(StopReason::TimeLimit), _) => Err(StepBackError::Stopped("it has not returned")),
            (Some(StopReason::Call), _) => {
                Err(StepBackError::Stopped("it has called MPI, or exit"))
            }
        }
    }
}

/// Undoes an incomplete step first, then the complete steps.
unsafe extern "C" fn run_all(run: *mut c_void) {
    // SAFETY: `undo_steps` passes a pointer to its `UndoRun`.
    let run = unsafe { &mut *run.cast::<UndoRun>() };
    let mut goes_on = run.undo(run.last.wrapping_add(1), true);
    fault::point("step-back.begin", run.epoch);
    while goes_on && run.undone < run.steps {
        goes_on = run.undo(run.last - run.undone as i64, false);
        run.undone += u64::from(goes_on);
    }
}

/// Returns the `missing` pages whose content the functions have restored.
///
/// The mappings must be those of the epoch again.
///
/// # Errors
/// Fails with the reason why the buddy's replica is needed, if any of these pages differs.
pub fn compare(
    rt: &Runtime,
    then: &SavedAnnotations,
    missing: &[PageSums],
    undone: Option<UndoResult>,
) -> Result<Vec<PageRun>, String> {
    let Some(undone) = undone else {
        return Ok(Vec::new());
    };
    let (right, wrong) = right_and_wrong(&absent_pages::among(missing, &then.reversible_pages()));
    events::emit(Kind::Reversed {
        pages: pages::total(&right),
        wrong,
        steps: undone.steps,
        ns: events::nanoseconds(undone.began),
    });
    if wrong == 0 {
        return Ok(right);
    }
    let why = undone.why();
    if matches!(undone.outcome, Err(StepBackError::Restarted)) {
        return Err(why);
    }
    annotations::distrust(rt);
    system_calls::print_message(message::undo_failed(undone.steps, &why));
    Err(format!(
        "undoing steps did not restore {wrong} pages: {why}"
    ))
}
