//! Annotations: memory that need not be saved according to the program (`understudy.h`).
//!
//! Checkpoints omit the pages of such memory. A recovery leaves zeros in these pages, unless a
//! function of the program computes their content ([`crate::recompute`],
//! [`crate::reverse_computation`]). A page that is annotated only in part is saved.
#![allow(unsafe_code)]

mod mark_list;
mod marked_memory;

use crate::{Runtime, events};
pub use mark_list::{Annotation, AnnotationList};
pub(crate) use marked_memory::AnnotationState;
use marked_memory::{AllAnnotations, replace_region};
pub use marked_memory::{FunctionRegion, SavedAnnotations, StepProgress, whole_pages};
pub use understudy_formats::events::AnnotationKind;
use understudy_image::pages::{AddrRange, PageRun};
use understudy_image::process_memory;

/// Byte value of poisoned memory.
pub const POISON: u8 = 0xa5;

/// Records memory whose content is not needed after the next point (`understudy_point`).
///
/// The program does not write to the memory before this point.
pub fn discard(rt: &Runtime, memory: AddrRange, place: u64) {
    let way = AnnotationKind::Discard;
    rt.marks
        .marks
        .borrow_mut()
        .discarded
        .push(Annotation { way, memory, place });
}

/// Records memory whose content is never needed in another process or after a recovery.
pub fn exclude(rt: &Runtime, memory: AddrRange, place: u64) {
    let way = AnnotationKind::Exclude;
    rt.marks
        .marks
        .borrow_mut()
        .lasting
        .exclude(Annotation { way, memory, place });
}

/// Records memory whose content is needed again.
pub fn include(rt: &Runtime, range: AddrRange) {
    rt.marks.marks.borrow_mut().lasting.include(range);
}

/// Sets the function that recomputes the content of a region.
///
/// Without a function, or with an empty range, the region with this start address is removed.
pub fn recompute(rt: &Runtime, region: FunctionRegion) {
    replace_region(&mut rt.marks.marks.borrow_mut().lasting.recomputed, region);
}

/// Sets the function that undoes changes of a region step by step.
///
/// Without a function, or with an empty range, the region with this start address is removed.
pub fn reversible(rt: &Runtime, region: FunctionRegion) {
    replace_region(&mut rt.marks.marks.borrow_mut().lasting.reversible, region);
}

/// True if functions may replace parts of this process's own replica.
pub fn trusts_functions(rt: &Runtime) -> bool {
    !rt.marks.is_distrusted.get()
}

/// Disallows that functions replace parts of the own replica.
pub fn distrust(rt: &Runtime) {
    rt.marks.is_distrusted.set(true);
}

/// Records the end of a step of the program.
pub fn record_step(rt: &Runtime, number: i64) {
    let steps = &mut rt.marks.marks.borrow_mut().lasting.steps;
    (steps.last, steps.reported) = (number, steps.reported + 1);
}

/// Returns the regions that functions recompute, in their order.
pub fn recomputed(rt: &Runtime) -> Vec<FunctionRegion> {
    rt.marks.marks.borrow().lasting.recomputed.clone()
}

/// Returns the pages (sorted) that a checkpoint at this moment may omit.
///
/// `at_point` is true if the checkpoint is taken at a point.
pub fn omitted_pages(rt: &Runtime, at_point: bool) -> Vec<PageRun> {
    let marks = rt.marks.marks.borrow();
    if at_point {
        marks.left_out()
    } else {
        marks.lasting.left_out()
    }
}

/// Returns the annotations that apply to a cut, and the annotations that have expired.
///
/// The second list contains the annotations that have expired since the last call of this function.
pub fn at_cut(rt: &Runtime, at_point: bool) -> (Vec<Annotation>, Vec<Annotation>) {
    rt.marks.marks.borrow_mut().at_cut(at_point)
}

/// Returns the name of a place in the program, which `find` determines the first time.
pub fn place_name(rt: &Runtime, place: u64, find: impl FnOnce() -> String) -> String {
    rt.marks
        .names
        .borrow_mut()
        .entry(place)
        .or_insert_with(find)
        .clone()
}

/// Records the passage of a point, at which all annotations of discarded memory expire.
///
/// After the point, the program may write the memory and need the new content.
#[inline]
pub fn pass_point(rt: &Runtime) {
    let mut marks = rt.marks.marks.borrow_mut();
    if !marks.discarded.is_empty() {
        let discarded = std::mem::take(&mut marks.discarded);
        expire(&mut marks.expired, &discarded);
    }
}

#[cold]
fn expire(forgotten: &mut AnnotationList, discarded: &[Annotation]) {
    if events::is_recording() {
        discarded.iter().for_each(|&mark| forgotten.add(mark));
    }
    if crate::process_info::config().poison {
        discarded
            .iter()
            .flat_map(|mark| whole_pages(mark.memory))
            .for_each(|run| {
                // SAFETY: the program has discarded the content of this memory. Pages that the
                // program has unmapped since are skipped.
                unsafe { process_memory::fill_own_memory(run.range(), POISON) };
            });
    }
}

/// Returns the annotations that are saved with a cut.
pub fn saved_annotations(rt: &Runtime) -> SavedAnnotations {
    rt.marks.marks.borrow().lasting.clone()
}

/// Restores saved annotations.
pub fn restore(rt: &Runtime, lasting: SavedAnnotations) {
    rt.marks.marks.set(AllAnnotations {
        lasting,
        ..AllAnnotations::NONE
    });
}
