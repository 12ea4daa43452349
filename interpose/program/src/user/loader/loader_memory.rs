//! Memory with ld.so's state of the program side, which a surviving process restores.
//!
//! ```text
//!   ld.so's data, first heap      except locks, lists of stacks, control block, static TLS
//!   heap for the program side     with its bookkeeping
//!   heap for the runtime side     only blocks to which ld.so's data points: tables of all sides
//!   the main thread's vector      except the runtime side's entries
//! ```
//!
//! A copy can be restored only in the process in which it was made, and only if the runtime and MPI
//! sides have opened no library since the copy was made: the records of all sides point to each
//! other, and those of the runtime and MPI sides have different addresses in other processes.
#![allow(unsafe_code)]

use super::dtv::{self, DtvEntry};
use super::loaded_libraries::{self, ModuleInfo};
use crate::user::tls;
use crate::{process_info, system_calls};
use std::ffi::c_int;
use std::sync::OnceLock;
use understudy_abi::{
    LD_HEAP_CLASSES, LD_HEAP_REGIONS, LD_HEAP_SIZE, PROGRAM_LD_HEAP, RUNTIME_LD_HEAP,
};
use understudy_image::pages::AddrRange;

const WORD: u64 = 8;
const REGION: u64 = (LD_HEAP_SIZE / LD_HEAP_REGIONS) as u64;

/// Range of ld.so's adjacent locks; also read by signal handlers.
static LOCKS: OnceLock<AddrRange> = OnceLock::new();

/// Address and content of a range of memory.
type MemoryCopy = (u64, Vec<u8>);

/// State of ld.so at one time.
pub struct LoaderSnapshot {
    data: Vec<MemoryCopy>,
    /// Used memory of the program side's heap.
    heap: Vec<MemoryCopy>,
    /// The preload library's bookkeeping of that heap.
    bookkeeping: Vec<u8>,
    /// Blocks of the runtime side's heap that contain tables of all sides.
    shared: Vec<MemoryCopy>,
    vector: Vec<DtvEntry>,
    /// Address and number of the runtime and MPI sides' libraries, which must not have changed.
    runtime: Vec<(u64, u64)>,
}

/// Returns the ranges of ld.so's state; empty if their format is unknown.
///
/// `first_heap` lists the memory that ld.so allocated before it used the program's malloc.
pub fn find(first_heap: &[AddrRange]) -> Vec<AddrRange> {
    let (start, length) = process_info::info().loader_data;
    // ld.so's first allocations follow its data, up to the end of the page.
    let end = (start + length).next_multiple_of(understudy_image::PAGE_SIZE);
    let data = AddrRange::new(start as u64 & !(WORD - 1), end as u64);
    let Some(excluded) = excluded_ranges(data) else {
        return Vec::new();
    };
    if !dtv::lengthen(&loaded_libraries::modules()) {
        return Vec::new();
    }
    let mut ranges = vec![data];
    ranges.extend(first_heap);
    for hole in excluded {
        ranges = ranges
            .into_iter()
            .flat_map(|range| super::super::excluded_ranges::without(range, hole))
            .collect();
    }
    ranges
}

/// Returns the ranges that must not be restored; `None` if their addresses are unknown.
///
/// The ranges contain locks, the lists of threads' stacks, and the main thread's control block with
/// its static thread-local storage.
fn excluded_ranges(data: AddrRange) -> Option<[AddrRange; 3]> {
    // `struct rtld_global` ends with the lists of stacks (glibc's sysdeps/generic/ldsodefs.h). libc
    // exports their offset for debuggers.
    const LISTS_AND_LOCK: u64 = 3 * 16 + 8 + 8 + 8;
    let global = process_info::user_symbol("_rtld_global");
    let used = system_calls::thread_db_offset(c"_thread_db_rtld_global__dl_stack_used")?;
    let size = system_calls::thread_db_size(c"_thread_db_sizeof_pthread")?;
    let info = process_info::user_symbol("_dl_get_tls_static_info");
    if global == 0 || info == 0 {
        return None;
    }
    // SAFETY: ld.so's function returns size and alignment of static thread-local storage.
    unsafe {
        let lists = global + used;
        let (mut length, mut alignment) = (0usize, 0usize);
        let info: unsafe extern "C" fn(*mut usize, *mut usize) = std::mem::transmute(info);
        info(&mut length, &mut alignment);
        let end = tls::control_block() + size;
        let locks = locks(data)?;
        let _ = LOCKS.set(locks);
        let thread = AddrRange::new(end - (length + alignment) as u64, end);
        let stacks = AddrRange::new(lists, lists + LISTS_AND_LOCK);
        Some([locks, stacks, thread])
    }
}

/// Size of glibc's `pthread_mutex_t`.
///
/// The mutex's words of 32 bits are lock, count, owner, users, kind.
const MUTEX: u64 = 40;
const RECURSIVE: u32 = 1;

/// Finds recursive mutexes that this thread has locked once, in ld.so's data.
unsafe extern "C" fn find_own_mutex(
    _: *mut libc::dl_phdr_info,
    _: usize,
    argument: *mut std::ffi::c_void,
) -> c_int {
    // SAFETY: the argument that `locks` passes. The range is ld.so's data, which is mapped.
    unsafe {
        let (data, found) = &mut *argument.cast::<(AddrRange, Vec<u64>)>();
        let own = libc::gettid() as u32;
        let words = |at: u64| (at as *const [u32; 5]).read();
        let last = data.end - MUTEX;
        let is_held =
            |at: &u64| matches!(words(*at), [1 | 2, 1, owner, 1, RECURSIVE] if owner == own);
        found.extend((data.start..last).step_by(WORD as usize).filter(is_held));
    }
    1
}

/// Returns the range of ld.so's two or three locks, which are adjacent.
///
/// dl_iterate_phdr(3) holds the second of these locks while it calls the callback. The callback
/// therefore finds this lock by its content.
fn locks(data: AddrRange) -> Option<AddrRange> {
    let mut argument: (AddrRange, Vec<u64>) = (data, Vec::new());
    // SAFETY: the callback receives the argument that it expects.
    unsafe { libc::dl_iterate_phdr(Some(find_own_mutex), (&raw mut argument).cast()) };
    let [held] = argument.1[..] else { return None };
    // SAFETY: words of ld.so's data.
    let kind = |at: u64| unsafe { ((at + 16) as *const u32).read() };
    let first = held - MUTEX;
    if first < data.start || kind(first) != RECURSIVE {
        return None;
    }
    let count = 2 + u64::from(held + 2 * MUTEX <= data.end && kind(held + MUTEX) == RECURSIVE);
    Some(AddrRange::new(first, first + count * MUTEX))
}

/// True if a thread holds one of ld.so's locks, or the locks are unknown.
///
/// Safe in a signal handler.
pub fn is_locked() -> bool {
    let Some(locks) = LOCKS.get() else {
        return true;
    };
    let mut words = (locks.start..locks.end).step_by(MUTEX as usize);
    // SAFETY: words of ld.so's data.
    words.any(|lock| unsafe { (lock as *const u32).read_volatile() } != 0)
}

fn copy(range: AddrRange) -> MemoryCopy {
    // SAFETY: the range is mapped memory of ld.so, and no thread changes it during the copy.
    let bytes =
        unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len() as usize) };
    (range.start, bytes.to_vec())
}

/// Restores a copy. Writes only words that differ, because other threads may be reading.
fn write((at, bytes): &MemoryCopy) {
    for (word, bytes) in (*at..)
        .step_by(WORD as usize)
        .zip(bytes.chunks_exact(WORD as usize))
    {
        let value = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let target = word as *mut u64;
        // SAFETY: aligned words that `copy` has read.
        unsafe {
            if target.read() != value {
                target.write(value);
            }
        }
    }
}

/// Returns the used part of each region of a heap.
///
/// Heap 0 is the program side's, heap 1 the runtime side's.
fn in_use(heap: usize) -> impl Iterator<Item = AddrRange> {
    let start = [PROGRAM_LD_HEAP, RUNTIME_LD_HEAP][heap] as u64;
    // SAFETY: the preload library's bookkeeping, which lives as long as the process.
    let used: [usize; LD_HEAP_CLASSES] =
        unsafe { process_info::info().loader_heap.used[heap].read_volatile() };
    let regions = (0u64..).zip(used).filter(|&(_, used)| used > 0);
    regions.map(move |(class, used)| {
        AddrRange::new(start + class * REGION, start + class * REGION + used as u64)
    })
}

/// Returns the block of the runtime side's heap that contains an address.
fn runtime_block(address: u64) -> Option<AddrRange> {
    let region = in_use(1).find(|region| region.contains(address))?;
    let class = (region.start - RUNTIME_LD_HEAP as u64) / REGION;
    let start = region.start + ((address - region.start) >> class << class);
    Some(AddrRange::new(start, start + (1 << class)))
}

/// Returns the blocks of the runtime side's heap that ld.so's data refers to.
///
/// Includes blocks to which the first word of another block points, because ld.so's tables are
/// chained by their first words. Blocks of threads are not included.
fn shared_blocks(ranges: &[AddrRange]) -> Vec<AddrRange> {
    const LONGEST_CHAIN: usize = 64;
    let mut found: Vec<AddrRange> = Vec::new();
    let (start, length) = process_info::info().loader_data;
    let data = AddrRange::new(start as u64, (start + length) as u64);
    let is_data = |range: &&AddrRange| data.intersect(**range).is_some();
    let words = |range: &AddrRange| (range.start..range.end).step_by(WORD as usize);
    for word in ranges.iter().filter(is_data).flat_map(words) {
        // SAFETY: the words lie in ld.so's data, which is mapped.
        let mut address = unsafe { (word as *const u64).read() };
        for _ in 0..LONGEST_CHAIN {
            let Some(block) = runtime_block(address) else {
                break;
            };
            if found.contains(&block) {
                break;
            }
            found.push(block);
            // SAFETY: a word within a used block.
            address = unsafe { ((address & !(WORD - 1)) as *const u64).read() };
        }
    }
    found
}

fn runtime_libraries() -> Vec<(u64, u64)> {
    let key = |module: &ModuleInfo| (module.base, module.tls_module);
    loaded_libraries::runtime_modules()
        .iter()
        .map(key)
        .collect()
}

impl LoaderSnapshot {
    /// Copies the state of ld.so, which consists of these ranges.
    pub fn take(ranges: &[AddrRange]) -> LoaderSnapshot {
        let heap = &process_info::info().loader_heap;
        LoaderSnapshot {
            data: ranges.iter().copied().map(copy).collect(),
            heap: in_use(0).map(copy).collect(),
            // SAFETY: the preload library's bookkeeping, which has this length.
            bookkeeping: unsafe { std::slice::from_raw_parts(heap.state, heap.state_length) }
                .to_vec(),
            shared: shared_blocks(ranges).into_iter().map(copy).collect(),
            vector: dtv::entries(),
            runtime: runtime_libraries(),
        }
    }

    /// Restores the state.
    ///
    /// Returns false and changes nothing if libraries of the runtime or MPI side have changed.
    pub fn restore(&self) -> bool {
        if runtime_libraries() != self.runtime {
            return false;
        }
        let heap = &process_info::info().loader_heap;
        let runtime = loaded_libraries::runtime_modules();
        [&self.data, &self.heap, &self.shared]
            .into_iter()
            .flatten()
            .for_each(write);
        // SAFETY: the preload library's bookkeeping has this length. No thread allocates memory
        // for the program side while the bookkeeping is restored.
        unsafe {
            heap.state
                .copy_from_nonoverlapping(self.bookkeeping.as_ptr(), self.bookkeeping.len())
        };
        dtv::restore_except(&self.vector, &runtime);
        true
    }
}
