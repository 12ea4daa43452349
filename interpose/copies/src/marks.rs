//! Memory that need not be saved, because the program says so (`understudy.h`).
//!
//! Checkpoints are without such pages, and recoveries leave zeros there, which functions of the
//! program replace ([`crate::recompute`]). Only whole pages count.
#![allow(unsafe_code)]

mod mark_list;
mod marked_memory;

use crate::{Runtime, events};
pub use mark_list::{Mark, MarkList};
pub(crate) use marked_memory::MarkState;
pub use marked_memory::{Lasting, Region, Steps, inside};
use marked_memory::{Marks, put};
pub use understudy_formats::events::MarkWay as Way;
use understudy_image::runs::{AddrRange, PageRun};

/// What poisoned memory holds.
pub const POISON: u8 = 0xa5;

/// The content is not needed behind the next point, and not written before.
pub fn discard(rt: &Runtime, memory: AddrRange, place: u64) {
    let way = Way::Discard;
    rt.marks
        .marks
        .borrow_mut()
        .discarded
        .push(Mark { way, memory, place });
}

/// The content is never needed in another process, nor after a recovery.
pub fn exclude(rt: &Runtime, memory: AddrRange, place: u64) {
    let way = Way::Exclude;
    rt.marks
        .marks
        .borrow_mut()
        .lasting
        .exclude(Mark { way, memory, place });
}

/// The content is needed again.
pub fn include(rt: &Runtime, range: AddrRange) {
    rt.marks.marks.borrow_mut().lasting.include(range);
}

/// A function makes the content; none, or an empty range: it does so no more for memory that begins
/// there.
pub fn recompute(rt: &Runtime, region: Region) {
    put(&mut rt.marks.marks.borrow_mut().lasting.recomputed, region);
}

/// A function undoes changes of the content, step by step; none: as above.
pub fn reversible(rt: &Runtime, region: Region) {
    put(&mut rt.marks.marks.borrow_mut().lasting.reversible, region);
}

/// Whether functions may stand for this process's own copies.
pub fn trusts(rt: &Runtime) -> bool {
    !rt.marks.is_distrusted.get()
}

/// From now on they may not.
pub fn distrust(rt: &Runtime) {
    rt.marks.is_distrusted.set(true);
}

/// The program has come to the end of a step.
pub fn step(rt: &Runtime, number: i64) {
    let steps = &mut rt.marks.marks.borrow_mut().lasting.steps;
    (steps.last, steps.told) = (number, steps.told + 1);
}

/// What functions make again, in their order.
pub fn recomputed(rt: &Runtime) -> Vec<Region> {
    rt.marks.marks.borrow().lasting.recomputed.clone()
}

/// What need not be in a checkpoint that is taken now (sorted), at a point or elsewhere.
pub fn left_out(rt: &Runtime, at_point: bool) -> Vec<PageRun> {
    let marks = rt.marks.marks.borrow();
    if at_point {
        marks.left_out()
    } else {
        marks.lasting.left_out()
    }
}

/// The marks behind [`left_out`], and those that were forgotten since this was asked last.
pub fn at_cut(rt: &Runtime, at_point: bool) -> (Vec<Mark>, Vec<Mark>) {
    rt.marks.marks.borrow_mut().at_cut(at_point)
}

/// The name of a place, which `find` finds the first time.
pub fn name(rt: &Runtime, place: u64, find: impl FnOnce() -> String) -> String {
    rt.marks
        .names
        .borrow_mut()
        .entry(place)
        .or_insert_with(find)
        .clone()
}

/// A point has been passed: what was not needed there is needed as soon as it has been written.
#[inline]
pub fn pass(rt: &Runtime) {
    let mut marks = rt.marks.marks.borrow_mut();
    if !marks.discarded.is_empty() {
        let discarded = std::mem::take(&mut marks.discarded);
        forget(&mut marks.forgotten, &discarded);
    }
}

#[cold]
fn forget(forgotten: &mut MarkList, discarded: &[Mark]) {
    if events::are_kept() {
        discarded.iter().for_each(|&mark| forgotten.add(mark));
    }
    if crate::told::config().poison {
        discarded
            .iter()
            .flat_map(|mark| inside(mark.memory))
            .for_each(|run| {
                let range = run.range();
                // SAFETY: the program's own memory, whose content it has given up.
                unsafe { (range.start as *mut u8).write_bytes(POISON, range.len() as usize) };
            });
    }
}

/// What is saved with a cut.
pub fn lasting(rt: &Runtime) -> Lasting {
    rt.marks.marks.borrow().lasting.clone()
}

/// Goes on from what was saved.
pub fn restore(rt: &Runtime, lasting: Lasting) {
    rt.marks.marks.set(Marks {
        lasting,
        ..Marks::NONE
    });
}
