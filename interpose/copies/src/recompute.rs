//! Memory that copies do without, since a function of the program makes it again
//! (`understudy_recompute`).
//!
//! After a load the functions are called in every process: those who take a part need it, and the
//! others would wait for them anyhow. They run before anything else can look at the memory:
//! messages that are sent again, and windows. UNDERSTUDY_POISON=1 has them called at every cut,
//! too, and compares.
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

/// Why functions that make memory again cannot be called.
#[derive(Debug, thiserror::Error)]
enum RecomputeError {
    /// It would wait for processes that are elsewhere.
    #[error(
        "{}", message::recompute_called(.0))]
    Call(&'static str),
}

/// Makes the memory of the program again, where the frame says: its pages are those of an epoch,
/// but for what is to be made.
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

/// Before a capture: forgets regions that are not the program's memory any more and, with poison,
/// those whose functions make other bytes.
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

/// Whether all of it is memory that a capture looks at, and that can be written.
pub fn is_mapped(layout: &Layout, memory: AddrRange) -> bool {
    let areas = layout.tracked().filter(|area| area.may_write);
    let pages: Vec<PageRun> = areas.map(|area| area.pages()).collect();
    runs::subtract(&[memory.pages()], &runs::normalise(pages)).is_empty()
}

/// Memory may have been made read-only since.
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
    // SAFETY: the program has given this function for these arguments.
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

/// What MPI calls of such a function lead to.
extern "C" fn refuse() -> ! {
    let name = Proc::from_slot(arch::innermost_slot() as u32).map_or("exit", Proc::name);
    let rt = understudy_journal::DOOR.get();
    ending::fail(rt, message::RECOMPUTE_FAILED, &RecomputeError::Call(name))
}

/// The first byte that the function makes another one, if any. The memory stays as it is.
fn compare(region: &Region) -> Option<usize> {
    let (start, length) = (region.memory.start as *mut u8, region.memory.len() as usize);
    // SAFETY: memory of the program, which stands still; no reference is left when its function
    // runs.
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
