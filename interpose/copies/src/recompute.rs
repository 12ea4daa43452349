//! Memory that replicas omit, because a function of the program recomputes it
//! (`understudy_recompute`).
//!
//! After a load the functions are called in every process: replacements need the content, and the
//! other processes would wait for them in any case. They run before any other access to the memory
//! by repeated messages or windows. With UNDERSTUDY_POISON=1 they are also called at every cut, and
//! their results are compared.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::arch::{self, Frame};
use crate::generated::Proc;
use crate::journal::address_names;
use crate::marks::{self, POISON, Region};
use crate::{ending, events, sys, told};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::layout::Layout;
use understudy_image::opened::{Need, Opened};
use understudy_image::runs::{self, AddrRange, PageRun};

/// Reason why functions that recompute memory cannot be called.
#[derive(Debug, thiserror::Error)]
enum RecomputeError {
    /// The function calls MPI, which would wait for processes at other positions.
    #[error(
        "{}", message::recompute_called(.0))]
    Call(&'static str),
}

/// Recomputes the program's memory in the state that `frame` describes.
///
/// All other pages must be those of the epoch.
pub fn make(rt: &Runtime, frame: &Frame, layout: &Layout) {
    let regions = marks::recomputed(rt);
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
/// With poison, regions whose functions compute other bytes are removed, too.
pub fn check(rt: &Runtime, layout: &Layout) {
    let regions = marks::recomputed(rt);
    for region in &regions {
        if !is_mapped(layout, region.memory) {
            take_back(rt, region);
            sys::say(message::recompute_unmapped(describe(region)));
        } else if told::config().poison {
            let opened = open(rt, layout, std::slice::from_ref(region));
            let different = compare(region);
            close(rt, opened);
            if let Some(place) = different {
                take_back(rt, region);
                sys::say(message::recompute_wrong(describe(region), place));
            }
        }
    }
}

fn take_back(rt: &Runtime, region: &Region) {
    let function = 0;
    marks::recompute(
        rt,
        Region {
            function,
            ..*region
        },
    );
}

fn describe(region: &Region) -> String {
    format!(
        "the region of {} bytes at {:#x} (understudy_recompute at {})",
        region.memory.len(),
        region.memory.start,
        address_names::names(&[region.place]).concat()
    )
}

/// True if a capture covers the whole range, and the program can write to it.
pub fn is_mapped(layout: &Layout, memory: AddrRange) -> bool {
    let areas = layout.tracked().filter(|area| area.may_write);
    let pages: Vec<PageRun> = areas.map(|area| area.pages()).collect();
    runs::subtract(&[memory.pages()], &runs::normalise(pages)).is_empty()
}

/// Makes regions writable, which the program may have made read-only since.
fn open(rt: &Runtime, layout: &Layout, regions: &[Region]) -> Opened {
    let pages = regions.iter().map(|region| region.memory.pages());
    Opened::open(layout, &runs::normalise(pages.collect()), Need::Write)
        .unwrap_or_else(|error| ending::fail(rt, message::RECOMPUTE_NOT_WRITABLE, &error))
}

fn close(rt: &Runtime, opened: Opened) {
    opened
        .close()
        .unwrap_or_else(|error| ending::fail(rt, message::RECOMPUTE_NOT_PROTECTED, &error));
}

fn call(region: &Region) {
    let Region {
        memory,
        function,
        argument,
        ..
    } = *region;
    // SAFETY: the program has registered this function for these arguments.
    arch::without_mpi(refuse, || unsafe {
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

/// Ends the job because such a function has called MPI.
///
/// Serves as the handler of all slots.
extern "C" fn refuse() -> ! {
    let name = Proc::from_slot(arch::innermost_slot() as u32).map_or("exit", Proc::name);
    let rt = understudy_journal::DOOR.get();
    ending::fail(rt, message::RECOMPUTE_FAILED, &RecomputeError::Call(name))
}

/// Returns the offset of the first byte that the function computes differently, if any.
///
/// The memory stays unchanged.
fn compare(region: &Region) -> Option<usize> {
    let (start, length) = (region.memory.start as *mut u8, region.memory.len() as usize);
    // SAFETY: memory of the program, which is stopped; no reference is left when its function runs.
    let before = unsafe { std::slice::from_raw_parts(start, length) }.to_vec();
    // SAFETY: as above.
    unsafe { start.write_bytes(POISON, length) };
    call(region);
    // SAFETY: as above.
    let made = unsafe { std::slice::from_raw_parts(start, length) };
    let different = before
        .iter()
        .zip(made)
        .position(|(before, made)| before != made);
    // SAFETY: as above.
    unsafe { start.copy_from_nonoverlapping(before.as_ptr(), length) };
    different
}
