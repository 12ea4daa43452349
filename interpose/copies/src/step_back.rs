//! Memory that a survivor gets back by undoing the program's steps (`understudy_reversible`), not
//! from a copy of its own.
//!
//! Reverse computation as the rollback of those who live on, after Perumalla and Park: "Reverse
//! computation for rollback-based fault tolerance in large parallel systems" (2014). Who takes the
//! part of a dead worker starts from the holder's copy, which has these pages.
//!
//! ```text
//!   undo      functions of the program, on its stack: all other memory is still that of now, and knows how far the program is
//!   load      mappings are put back
//!   compare   with the checksums of the epoch. All are equal: these pages stay. Else this copy counts as damaged, and the holder's is loaded
//! ```
//!
//! So a wrong function costs time, and no byte. One that faults, calls MPI or does not return is
//! stopped.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::arch::{self, Stopped};
use crate::marks::{self, Lasting, Region};
use crate::recompute::is_mapped;
use crate::{copies, ending, events, fault, sys, told, user, world};
use std::ffi::c_void;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_image::absent::{self, Sums};
use understudy_image::layout::Layout;
use understudy_image::opened::{Need, Opened};
use understudy_image::own_memory;
use understudy_image::runs::{self, PageIndex, PageRun};
use understudy_image::sums::of_page;
use understudy_numbers::Epoch;

/// A function may take so long, and so many times as long as the program has run since the epoch.
const LEAST_LIMIT: Duration = Duration::from_secs(2);
const LIMIT_FACTOR: u32 = 3;

/// Why steps were not undone.
#[derive(Debug, thiserror::Error)]
pub enum StepBackError {
    /// What the function's claim amounts to, or what it is told with.
    #[error("the program has taken the claim back, or unmapped the memory")]
    NoFunction,
    /// `understudy_step` was left out, or called twice for a step.
    #[error("steps since the checkpoint are not numbered one by one")]
    Numbers,
    /// The function says so.
    #[error("the function has answered that it cannot undo step {0}")]
    Declined(i64),
    /// The function did not come to its end.
    #[error("the function was stopped: {0}")]
    Stopped(&'static str),
    /// Another process has died, or needs another copy.
    #[error("the recovery has begun again")]
    Again,
}

/// What the functions have come to.
pub struct Undone {
    steps: u64,
    began: Instant,
    outcome: Result<(), StepBackError>,
}

/// Pages that this process need not keep of the checkpoint that is being taken (sorted). Its holder
/// keeps them; an epoch on disk, and parity, need them. One that is taken anywhere (not `at_point`)
/// is inside of a step, to which nothing leads back.
pub fn spared(rt: &Runtime, at_point: bool) -> Vec<PageRun> {
    let redundancy = &world::get(rt).redundancy;
    let is_held =
        !redundancy.is_parity() && redundancy.holders_of(world::worker(rt)).next().is_some();
    if at_point && is_held && told::config().disk.is_none() && marks::trusts(rt) {
        marks::lasting(rt).reversible_pages()
    } else {
        Vec::new()
    }
}

/// Undoes the program's steps since the epoch with which `then` was saved, if its own copy is
/// without what they have changed.
pub fn undo(rt: &Runtime, then: &Lasting) -> Option<Undone> {
    (!lacked(rt, then).is_empty()).then(|| undo_steps(rt, then))
}

/// What this process's own copy is without for that reason.
fn lacked(rt: &Runtime, then: &Lasting) -> Vec<Sums> {
    absent::among(
        copies::keep(rt).own.image.absent(),
        &then.reversible_pages(),
    )
}

fn undo_steps(rt: &Runtime, then: &Lasting) -> Undone {
    let began = Instant::now();
    let mut run = Run {
        regions: Vec::new(),
        last: 0,
        steps: 0,
        undone: 0,
        epoch: copies::epoch(rt),
        declined: None,
    };
    let outcome = prepare(rt, then, &mut run).and_then(|opened| {
        let limit = LEAST_LIMIT + copies::age(rt) * LIMIT_FACTOR;
        // SAFETY: `run_all` leaves nothing to drop; what the program has half done is put back as a
        // whole.
        let stopped = arch::without_mpi(arch::refuse, || unsafe {
            arch::at_risk(limit, &mut run, run_all)
        });
        // If that fails, mappings are as in the epoch soon.
        let _ = opened.close();
        run.outcome(stopped)
    });
    Undone {
        steps: run.undone,
        began,
        outcome,
    }
}

/// The pages in which regions are, also in part.
fn touched(marks: &Lasting) -> impl Iterator<Item = PageIndex> + use<> {
    let pages = marks
        .reversible()
        .iter()
        .map(|region| region.memory.pages())
        .collect();
    let pages = runs::normalise(pages).into_iter();
    pages.flat_map(|run| (run.start.0..run.end()).map(PageIndex))
}

/// Before a capture, with poison: undoes the steps since the last epoch, and does them again by
/// putting the bytes back. Functions that make others than there were then are not trusted.
pub fn check(rt: &Runtime) {
    if !told::config().poison || !marks::trusts(rt) {
        return;
    }
    let state = copies::keep(rt).own.state.clone();
    let Ok(then) = copies::decode(&state.bytes).map(|saved| saved.marks) else {
        return;
    };
    let lacked = lacked(rt, &then);
    if lacked.is_empty() {
        return;
    }
    let mut now = Vec::new();
    for page in touched(&marks::lasting(rt)) {
        let mut content = [0; PAGE_SIZE];
        now.extend(own_memory::read(page.addr(), &mut content).then_some((page, content)));
    }
    let undone = undo_steps(rt, &then);
    let (_, wrong) = right_and_wrong(&lacked);
    let memory = own_memory::writable();
    let put_back = memory.and_then(|memory| {
        let mut pages = now.iter();
        pages.try_for_each(|(page, content)| memory.write_all_at(content, page.addr()))
    });
    put_back.unwrap_or_else(|error| ending::fail(rt, message::STEPS_NOT_RESTORED, &error));
    if wrong > 0 {
        marks::distrust(rt);
        sys::say(message::undo_wrong(undone.steps, undone.why()));
    }
}

impl Undone {
    /// Why something is not as it was.
    fn why(&self) -> String {
        match &self.outcome {
            Err(why) => why.to_string(),
            Ok(()) => "the function makes other bytes than those that were there".into(),
        }
    }
}

/// Those of these pages that are in memory as they were, and how many are not.
fn right_and_wrong(pages: &[Sums]) -> (Vec<PageRun>, u64) {
    let (mut right, mut wrong, mut content) = (Vec::new(), 0, [0; PAGE_SIZE]);
    for (page, sum) in pages.iter().flat_map(Sums::each) {
        if own_memory::read(page.addr(), &mut content) && of_page(page, &content) == sum {
            runs::push(&mut right, PageRun::between(page.0, page.0 + 1));
        } else {
            wrong += 1;
        }
    }
    (right, wrong)
}

/// The regions of both then and now, which can be written, and the steps.
fn prepare(rt: &Runtime, then: &Lasting, run: &mut Run) -> Result<Opened, StepBackError> {
    let now = marks::lasting(rt);
    let layout = Layout::read_self(user::State::zones()).map_err(|_| StepBackError::NoFunction)?;
    let was_there = |region: &&Region| {
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
    Opened::open(&layout, &then.reversible_pages(), Need::Write)
        .map_err(|_| StepBackError::NoFunction)
}

/// What is to be undone.
struct Run {
    regions: Vec<Region>,
    last: i64,
    steps: u64,
    /// How many steps have been.
    undone: u64,
    epoch: Epoch,
    declined: Option<i64>,
}

impl Run {
    /// The functions undo a step, the last one first; whether they have.
    fn undo(&mut self, step: i64, is_partial: bool) -> bool {
        for region in self.regions.iter().rev() {
            let (start, bytes) = (region.memory.start, region.memory.len());
            // SAFETY: the program has given this function for these arguments.
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

    fn outcome(&self, stopped: Option<Stopped>) -> Result<(), StepBackError> {
        match (stopped, self.declined) {
            (None, None) => Ok(()),
            (None, Some(step)) => Err(StepBackError::Declined(step)),
            (Some(Stopped::Again), _) => Err(StepBackError::Again),
            (Some(Stopped::Fault), _) => {
                Err(StepBackError::Stopped("it has caused a fatal signal"))
            }
            (Some(Stopped::Late), _) => Err(StepBackError::Stopped("it has not returned")),
            (Some(Stopped::Call), _) => Err(StepBackError::Stopped("it has called MPI, or exit")),
        }
    }
}

/// First what there is of a step that was not complete, then those that were.
unsafe extern "C" fn run_all(run: *mut c_void) {
    // SAFETY: `undo` passes its own.
    let run = unsafe { &mut *run.cast::<Run>() };
    let mut goes_on = run.undo(run.last.wrapping_add(1), true);
    fault::point("step-back.begin", run.epoch);
    while goes_on && run.undone < run.steps {
        goes_on = run.undo(run.last - run.undone as i64, false);
        run.undone += u64::from(goes_on);
    }
}

/// Those of the `missing` pages that are in memory as they were, if that is all of those whose
/// changes were to be undone. Mappings are those of the epoch again.
///
/// # Errors
/// Why the holder's copy is needed.
pub fn compare(
    rt: &Runtime,
    then: &Lasting,
    missing: &[Sums],
    undone: Option<Undone>,
) -> Result<Vec<PageRun>, String> {
    let Some(undone) = undone else {
        return Ok(Vec::new());
    };
    let (right, wrong) = right_and_wrong(&absent::among(missing, &then.reversible_pages()));
    events::emit(Kind::Reversed {
        pages: runs::total(&right),
        wrong,
        steps: undone.steps,
        ns: events::nanoseconds(undone.began),
    });
    if wrong == 0 {
        return Ok(right);
    }
    let why = undone.why();
    if matches!(undone.outcome, Err(StepBackError::Again)) {
        return Err(why);
    }
    marks::distrust(rt);
    sys::say(message::undo_failed(undone.steps, &why));
    Err(format!(
        "{wrong} pages were not brought back by undoing steps: {why}"
    ))
}
