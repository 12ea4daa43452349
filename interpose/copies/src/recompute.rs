//! Memory that replicas omit, because a function of the program recomputes it
//! (`understudy_recompute`).
//!
//! After a load the functions are called in every process: replacements need the content, and the
//! other processes would wait for the replacements in any case. The functions run before the
//! recovery repeats messages and makes windows again, which may access the memory. With
//! UNDERSTUDY_POISON=1 the functions are also called at every cut, and their results are compared.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::annotations::{self, FunctionRegion, POISON};
use crate::arch::{self, Frame};
use crate::generated::Proc;
use crate::journal::address_names;
use crate::{abort, events, process_info, system_calls};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::layout::Layout;
use understudy_image::opened::{NeededAccess, OpenedAreas};
use understudy_image::pages::{self, AddrRange, PageRun};

/// Reason why memory cannot be recomputed.
#[derive(Debug, thiserror::Error)]
enum RecomputeError {
    /// The function calls MPI, which would wait for processes at other points of the program.
    #[error(
        "{}", message::recompute_called(.0))]
    Call(&'static str),
}

/// Recomputes annotated memory, on the program's stack as `frame` describes it.
///
/// All other memory must have the content of the epoch.
pub fn recompute_memory(rt: &Runtime, frame: &Frame, layout: &Layout) {
    let regions = annotations::recomputed(rt);
    if regions.is_empty() {
        return;
    }
    let began = Instant::now();
    let opened = open(rt, layout, &regions);
    arch::on_stack_of(frame, || regions.iter().for_each(call));
    close(rt, opened);
    events::emit(Kind::Recomputed {
        regions: regions.len() as u64,
        bytes: regions.iter().map(|region| region.memory.len()).sum(),
        ns: events::nanoseconds(began),
    });
}

/// Removes regions that are not the program's memory any more, before a capture.
///
/// With UNDERSTUDY_POISON=1, regions whose functions compute other bytes are removed, too.
pub fn check_regions(rt: &Runtime, layout: &Layout) {
    let regions = annotations::recomputed(rt);
    for region in &regions {
        if !is_mapped(layout, region.memory) {
            remove_region(rt, region);
            system_calls::print_message(message::recompute_unmapped(describe(region)));
        } else if process_info::config().poison {
            let opened = open(rt, layout, std::slice::from_ref(region));
            let different = compare(region);
            close(rt, opened);
            if let Some(place) = different {
                remove_region(rt, region);
                system_calls::print_message(message::recompute_wrong(describe(region), place));
            }
        }
    }
}

fn remove_region(rt: &Runtime, region: &FunctionRegion) {
    let function = 0;
    annotations::recompute(
        rt,
        FunctionRegion {
            function,
            ..*region
        },
    );
}

fn describe(region: &FunctionRegion) -> String {
    format!(
        "the region of {} bytes at {:#x} (understudy_recompute at {})",
        region.memory.len(),
        region.memory.start,
        address_names::names(&[region.place]).concat()
    )
}

/// True if a capture covers the whole range, and the range is writable.
pub fn is_mapped(layout: &Layout, memory: AddrRange) -> bool {
    let areas = layout.tracked().filter(|area| area.may_write);
    let pages: Vec<PageRun> = areas.map(|area| area.pages()).collect();
    pages::subtract(&[memory.pages()], &pages::normalise(pages)).is_empty()
}

/// Makes regions writable, which the program may have made read-only meanwhile.
fn open(rt: &Runtime, layout: &Layout, regions: &[FunctionRegion]) -> OpenedAreas {
    let pages = regions.iter().map(|region| region.memory.pages());
    OpenedAreas::open(
        layout,
        &pages::normalise(pages.collect()),
        NeededAccess::Write,
    )
    .unwrap_or_else(|error| abort::abort_with_error(rt, message::RECOMPUTE_NOT_WRITABLE, &error))
}

fn close(rt: &Runtime, opened: OpenedAreas) {
    opened.close().unwrap_or_else(|error| {
        abort::abort_with_error(rt, message::RECOMPUTE_NOT_PROTECTED, &error)
    });
}

fn call(region: &FunctionRegion) {
    let FunctionRegion {
        memory,
        function,
        argument,
        ..
    } = *region;
    // SAFETY: the program has registered this function for these arguments, and is responsible for
    // its memory accesses.
    arch::without_mpi(abort_at_mpi_call, || unsafe {
        arch::call_user(
            function as *const _,
            memory.start,
            memory.len(),
            argument,
            0,
            0,
        );
    });
}

/// Ends the job because a function that recomputes memory has called MPI.
///
/// Serves as the handler of all slots.
extern "C" fn abort_at_mpi_call() -> ! {
    let name = Proc::from_slot(arch::innermost_slot() as u32).map_or("exit", Proc::name);
    let rt = understudy_journal::DOOR.get();
    abort::abort_with_error(rt, message::RECOMPUTE_FAILED, &RecomputeError::Call(name))
}

/// Returns the offset of the first byte that the function computes differently, if any.
///
/// The memory stays unchanged.
fn compare(region: &FunctionRegion) -> Option<usize> {
    let (start, length) = (region.memory.start as *mut u8, region.memory.len() as usize);
    // SAFETY: `check_regions` has made this memory writable, and the program is stopped. No
    // reference is left when the program's function runs.
    let before = unsafe { std::slice::from_raw_parts(start, length) }.to_vec();
    // SAFETY: the memory is writable, as above, and no reference to it exists.
    unsafe { start.write_bytes(POISON, length) };
    call(region);
    // SAFETY: the memory is readable, as above, and the program's function has returned.
    let made = unsafe { std::slice::from_raw_parts(start, length) };
    let different = before
        .iter()
        .zip(made)
        .position(|(before, made)| before != made);
    // SAFETY: `before` has `length` bytes, and no reference to the program's memory is used later.
    unsafe { start.copy_from_nonoverlapping(before.as_ptr(), length) };
    different
}
