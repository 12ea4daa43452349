//! Landings: memory of the program that the MPI library may write by a network device.
//!
//! The kernel does not report what a device writes into memory that was registered before tracking
//! was armed. While landings are noted, every call of a procedure with a receive buffer adds the
//! pages of the buffer before the library is called (`procedures`, generated from the call table).
//! A capture or a rollback compares these pages with their copies, so a page that no device has
//! written costs a comparison and nothing else.
//!
//! The pages that a call with a datatype covers are those of its extent. Buffers of persistent
//! requests are noted until the MPI instance ends, since the library may write them at any time
//! between the calls. Memory of the runtime is in no image and is not noted.
#![allow(unsafe_code)]

use crate::abi::rank;
use crate::call::NeverAbandoned;
use crate::procedures::real;
use crate::real_types::{IN_PLACE, ROOT, RealComm, RealDatatype};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use understudy_abi::{ZONE_SHIFT, ZONE_TAG};
use understudy_formats::pages::{self, AddrRange, PageIndex, PageRun};

/// Largest number of runs in a list of pages.
const MAX_RUNS: usize = 1 << 14;

/// Number of recent landings that are not added again; a power of two.
const RECENT_COUNT: usize = 64;

const NO_PAGES: PageRun = PageRun {
    start: PageIndex(0),
    pages: 0,
};

/// True if landings are noted.
static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// Landings of this process; process-wide, because the library's procedures have no other state.
static LANDINGS: Mutex<Landings> = Mutex::new(Landings {
    new: Vec::new(),
    persistent: Vec::new(),
    recent: [NO_PAGES; RECENT_COUNT],
});

/// Time for which the library may write a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duration {
    /// Until the call or its request is complete.
    Operation,
    /// Until the MPI instance ends.
    Instance,
}

/// Elements of a buffer, counted from its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    first: i64,
    count: i64,
}

struct Landings {
    /// Pages that were noted since [`take_noted_pages`], in any order.
    new: Vec<PageRun>,
    /// Pages of the instance's persistent requests.
    persistent: Vec<PageRun>,
    /// Landings that are in `new`, by their first page.
    recent: [PageRun; RECENT_COUNT],
}

impl Landings {
    fn note(&mut self, pages: PageRun, duration: Duration) {
        if duration == Duration::Instance {
            add(&mut self.persistent, pages);
        }
        let recent = &mut self.recent[pages.start.0 as usize % RECENT_COUNT];
        if *recent != pages {
            *recent = pages;
            add(&mut self.new, pages);
        }
    }

    fn take(&mut self) -> Vec<PageRun> {
        self.recent = [NO_PAGES; RECENT_COUNT];
        pages::normalise(std::mem::take(&mut self.new))
    }
}

/// Adds pages to a list in any order, whose length stays limited.
fn add(list: &mut Vec<PageRun>, pages: PageRun) {
    if list.len() == MAX_RUNS {
        *list = pages::normalise(std::mem::take(list));
        let mut gap = 1;
        while list.len() > MAX_RUNS / 2 {
            join(list, gap);
            gap *= 4;
        }
    }
    list.push(pages);
}

/// Joins the runs of a sorted list between which at most `gap` pages lie.
fn join(list: &mut Vec<PageRun>, gap: u64) {
    list.dedup_by(|next, run| {
        let is_near = next.start.0 - run.end() <= gap;
        if is_near {
            run.pages = next.end() - run.start.0;
        }
        is_near
    });
}

fn landings() -> MutexGuard<'static, Landings> {
    LANDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Selects whether landings are noted.
pub fn set_noted(is_noted: bool) {
    IS_NOTED.store(is_noted, Ordering::Relaxed);
}

/// True if landings are noted.
#[inline]
pub fn are_noted() -> bool {
    IS_NOTED.load(Ordering::Relaxed)
}

/// Returns the pages (sorted) that were noted since the last call of this function.
pub fn take_noted_pages() -> Vec<PageRun> {
    landings().take()
}

/// Returns the pages (sorted) that persistent requests of this MPI instance may write.
pub fn persistent_pages() -> Vec<PageRun> {
    pages::normalise(landings().persistent.clone())
}

/// Forgets the persistent requests of the last MPI instance, which no longer exist.
pub fn begin_instance() {
    landings().persistent.clear();
}

/// True if the buffer of a call must be noted.
#[inline]
pub(crate) fn is_landing(buffer: *mut c_void) -> bool {
    are_noted() && is_of_program(buffer)
}

#[cold]
fn is_of_program(buffer: *mut c_void) -> bool {
    buffer.cast_const() != IN_PLACE && buffer as usize >> ZONE_SHIFT != ZONE_TAG
}

/// Notes a buffer.
#[cold]
#[inline(never)]
pub(crate) fn note(
    duration: Duration,
    buffer: *mut c_void,
    elements: Elements,
    datatype: RealDatatype,
) {
    if let Some(pages) = covered(buffer, elements, datatype) {
        landings().note(pages, duration);
    }
}

/// Returns the pages into which an open receive may write.
///
/// The queries are not abandoned after a failure, because the receive stays open until then.
pub fn pages_of_receive(buffer: u64, count: c_int, datatype: RealDatatype) -> Option<PageRun> {
    let _guard = NeverAbandoned::new();
    covered(buffer as *mut c_void, first_elements(count), datatype)
}

/// Returns the pages of these elements; `None` if they have no data.
fn covered(buffer: *mut c_void, elements: Elements, datatype: RealDatatype) -> Option<PageRun> {
    let (mut lower, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0);
    if elements.count <= 0 {
        return None;
    }
    // SAFETY: local queries, which write variables of this function; the library checks the
    // datatype. If a query for `note` fails or is abandoned, the noted call fails too.
    let failed = unsafe {
        real::PMPI_Type_get_extent(datatype, &mut lower, &mut extent)
            | real::PMPI_Type_get_true_extent(datatype, &mut true_lower, &mut true_extent)
    };
    if failed != 0 || true_extent <= 0 {
        return None;
    }
    let last = elements.first + (elements.count - 1);
    let ends = [elements.first, last].map(|element| element.saturating_mul(extent as i64));
    let base = buffer as i64 + true_lower as i64;
    let start = base.saturating_add(ends[0].min(ends[1]));
    let end = base
        .saturating_add(ends[0].max(ends[1]))
        .saturating_add(true_extent as i64);
    let range = AddrRange::new(u64::try_from(start).ok()?, u64::try_from(end).ok()?);
    Some(range.pages())
}

/// Returns the first `count` elements.
pub(crate) fn first_elements(count: impl Into<i64>) -> Elements {
    Elements {
        first: 0,
        count: count.into(),
    }
}

/// Integer of an array: `int`, `MPI_Count` or `MPI_Aint`.
pub(crate) trait Integer: Copy {
    fn value(self) -> i64;
}

impl Integer for c_int {
    fn value(self) -> i64 {
        self.into()
    }
}

impl Integer for i64 {
    fn value(self) -> i64 {
        self
    }
}

impl Integer for isize {
    fn value(self) -> i64 {
        self as i64
    }
}

/// Returns an entry of an array; 0 if the address of the array is null.
///
/// # Safety
/// The array must have the entry.
unsafe fn entry_or_zero<T: Integer>(array: *const T, index: usize) -> i64 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        array
            .wrapping_add(index)
            .as_ref()
            .filter(|_| !array.is_null())
    }
    .map_or(0, |entry| entry.value())
}

/// Returns the elements that this process receives, the entry of its rank in `counts`.
///
/// # Safety
/// The array must have an entry for each process of the communicator.
pub(crate) unsafe fn elements_of_this_rank<T: Integer>(
    counts: *const T,
    comm: RealComm,
) -> Elements {
    let rank = usize::try_from(rank(comm)).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    first_elements(unsafe { entry_or_zero(counts, rank) })
}

/// Returns the elements between the first and the last block, with all gaps.
///
/// # Safety
/// Both arrays must have `blocks` entries.
pub(crate) unsafe fn elements_of_all_blocks<C: Integer, D: Integer>(
    counts: *const C,
    displacements: *const D,
    blocks: usize,
) -> Elements {
    // SAFETY: guaranteed by the caller.
    let block = |index| unsafe {
        (
            entry_or_zero(counts, index),
            entry_or_zero(displacements, index),
        )
    };
    let blocks = || (0..blocks).map(block).filter(|(count, _)| *count > 0);
    let first = blocks()
        .map(|(_, displacement)| displacement)
        .min()
        .unwrap_or(0);
    let end = blocks()
        .map(|(count, displacement)| displacement + count)
        .max();
    Elements {
        first,
        count: end.map_or(0, |end| end - first),
    }
}

/// Notes blocks with displacements in bytes and with a datatype each.
///
/// # Safety
/// The arrays must have `blocks` entries.
#[cold]
pub(crate) unsafe fn note_blocks<C: Integer, D: Integer>(
    duration: Duration,
    buffer: *mut c_void,
    (counts, displacements, datatypes): (*const C, *const D, *const RealDatatype),
    blocks: usize,
) {
    for index in 0..blocks {
        // SAFETY: guaranteed by the caller.
        let (count, displacement) = unsafe {
            (
                entry_or_zero(counts, index),
                entry_or_zero(displacements, index),
            )
        };
        if count > 0 {
            let address = buffer.wrapping_byte_offset(displacement as isize);
            // SAFETY: guaranteed by the caller.
            note(duration, address, first_elements(count), unsafe {
                *datatypes.add(index)
            });
        }
    }
}

/// True if this process is the root that receives (MPI 4.1, 6.2.3).
pub(crate) fn is_root(comm: RealComm, root: c_int) -> bool {
    let mut is_inter = 0;
    // SAFETY: a local query, which writes a variable of this function.
    unsafe { real::PMPI_Comm_test_inter(comm, &mut is_inter) };
    root == ROOT || (is_inter == 0 && rank(comm) == root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landings() -> Landings {
        Landings {
            new: Vec::new(),
            persistent: Vec::new(),
            recent: [NO_PAGES; RECENT_COUNT],
        }
    }

    #[test]
    fn equal_landings_are_stored_once_until_they_are_taken() {
        let mut all = landings();
        let (a, b) = (PageRun::between(1, 3), PageRun::between(2, 9));
        for pages in [a, b, a, b, a] {
            all.note(pages, Duration::Operation);
        }
        assert_eq!(all.new, [a, b]);
        assert_eq!(all.take(), [PageRun::between(1, 9)]);
        all.note(a, Duration::Instance);
        assert_eq!((all.take(), all.take()), (vec![a], vec![]));
        assert_eq!(all.persistent, [a]);
    }

    #[test]
    fn long_lists_cover_all_pages() {
        let mut all = landings();
        let pages = |i: u64| PageRun::between(10 * i, 10 * i + 1 + i % 2);
        (0..100_000).for_each(|i| all.note(pages(i), Duration::Operation));
        assert!(all.new.len() <= MAX_RUNS);
        let taken = all.take();
        assert!(pages::is_list(&taken));
        let noted: Vec<PageRun> = (0..100_000).map(pages).collect();
        assert_eq!(pages::subtract(&noted, &taken), []);
    }

    #[test]
    fn spans_contain_every_block_with_data() {
        let (counts, displacements) = ([2, 0, 3], [10_isize, -90, -4]);
        // SAFETY: arrays with three entries.
        let elements =
            unsafe { elements_of_all_blocks(counts.as_ptr(), displacements.as_ptr(), 3) };
        assert_eq!(
            elements,
            Elements {
                first: -4,
                count: 16
            }
        );
        // SAFETY: no entry is read.
        let none = unsafe {
            elements_of_all_blocks::<c_int, c_int>(std::ptr::null(), std::ptr::null(), 3)
        };
        assert_eq!(none.count, 0);
    }
}
