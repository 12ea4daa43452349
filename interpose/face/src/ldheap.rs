//! Heaps of ld.so: one for the program side, one for the runtime and MPI sides.
//!
//! After start-up, ld.so allocates link maps, vectors of TLS addresses (DTVs) and TLS blocks with
//! the program's malloc. Allocations for the other namespaces would be rolled back with the
//! program's heap, and would move the program's own blocks. ld.so's data contain pointers to the
//! program's malloc, calloc, free and realloc; [`install`] finds the pointers by their values, and
//! replaces them. A request that is made on a stack in the reserved range belongs to the runtime
//! and MPI sides, any other request to the program side.
//!
//! Blocks of the program side must have equal addresses in a replacement, which opens libraries in
//! another order and at another time. Each heap therefore has one region for each size class, a
//! power of two. The runtime can also reserve the blocks of a failed process, and list them for the
//! next requests.
//!
//! DTVs and TLS blocks of the program's other threads stay in the program's heap, because libc
//! expects this: when it reuses the stack of a terminated thread, it releases the thread's TLS
//! blocks with its own free().
#![allow(unsafe_code)]

use crate::link::Extent;
use crate::{passive_libraries, stop, sys, threads};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use understudy_abi::{
    LD_HEAP_CLASSES as CLASSES, LD_HEAP_HEADER as HEADER, LD_HEAP_REGIONS, LD_HEAP_SIZE,
    LoaderHeap, MAX_LIBRARY_ADDRESSES, PROGRAM_LD_HEAP, RUNTIME_LD_HEAP, ZONE_SHIFT, ZONE_TAG,
};

/// Size of the region of each class.
///
/// With one region for each class, the address of a link map (which dlopen returns) depends only on
/// earlier link maps. A replacement therefore has equal addresses.
const REGION: usize = LD_HEAP_SIZE / LD_HEAP_REGIONS;
/// Flag in the second word of a block's header: the block is a link map.
const LINK_MAP: usize = 1;
/// Minimum size of a link map.
///
/// ld.so requests link maps, and no other data of this size, with `calloc(size, 1)`
/// (`_dl_new_object` of glibc).
const MIN_LINK_MAP_SIZE: usize = 512;

/// Size of an entry of a thread's DTV.
///
/// The allocation of a DTV is recognised by this size: ld.so requests only DTVs with
/// `calloc(entries, 16)` (`_dl_allocate_tls` of glibc), also for a thread that libc creates for
/// itself.
const DTV_ENTRY_SIZE: usize = 16;

const _: () = assert!(CLASSES <= LD_HEAP_REGIONS && (1 << (CLASSES - 3)) == REGION);

/// Bump pointer and list of free blocks for each size class.
///
/// The lists are sorted by address, so that the next address depends only on the set of blocks in
/// use, and not on the order in which libraries were closed. Lists are short, because ld.so
/// allocates and frees few blocks.
#[repr(C)]
struct Heap {
    /// First address of the heap.
    start: usize,
    /// Bytes in use at the beginning of each region.
    used: [usize; CLASSES],
    /// First free block of each class, or zero.
    ///
    /// A free block's first word is the address of the next free block.
    free: [usize; CLASSES],
    /// Number of allocations and releases.
    changes: usize,
}

/// Reserved blocks for the next link maps of the program side.
///
/// The blocks are in order; 0 ends the list.
static mut LINK_MAPS: [usize; MAX_LIBRARY_ADDRESSES] = [0; MAX_LIBRARY_ADDRESSES];
/// Reserved block for the program side's next request for other data, or zero.
static NEXT_BLOCK: AtomicUsize = AtomicUsize::new(0);

static LOCK: AtomicBool = AtomicBool::new(false);
static mut HEAPS: [Heap; 2] = [
    Heap {
        start: PROGRAM_LD_HEAP,
        used: [0; CLASSES],
        free: [0; CLASSES],
        changes: 0,
    },
    Heap {
        start: RUNTIME_LD_HEAP,
        used: [0; CLASSES],
        free: [0; CLASSES],
        changes: 0,
    },
];

/// The program's malloc, calloc, free and realloc, which ld.so used before [`install`].
///
/// Blocks that these functions have allocated are released by them.
static FORMER_FUNCTIONS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
const NAMES: [&core::ffi::CStr; 4] = [c"malloc", c"calloc", c"free", c"realloc"];

/// Calls `work` with a heap, under the lock of both heaps.
fn with_heap<T>(index: usize, work: impl FnOnce(&mut Heap) -> T) -> T {
    while LOCK
        .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        core::hint::spin_loop();
    }
    // SAFETY: this thread has the lock; the reference ends with the closure.
    #[allow(static_mut_refs)]
    let result = work(unsafe { &mut HEAPS[index] });
    LOCK.store(false, Ordering::Release);
    result
}

impl Heap {
    fn allocate(&mut self, size: usize) -> *mut c_void {
        let class = (size + HEADER).next_power_of_two().max(32).trailing_zeros() as usize;
        if class >= CLASSES {
            return core::ptr::null_mut();
        }
        self.changes += 1;
        let mut block = self.free[class];
        // SAFETY: free blocks are linked through their first word; new blocks are in the heap's
        // mapping.
        unsafe {
            if block != 0 {
                self.free[class] = (block as *const usize).read();
            } else {
                if self.used[class] + (1 << class) > REGION {
                    return core::ptr::null_mut();
                }
                block = self.start + class * REGION + self.used[class] + HEADER;
                self.used[class] += 1 << class;
            }
            ((block - HEADER) as *mut [usize; 2]).write([class, 0]);
        }
        block as *mut c_void
    }

    /// Allocates the block at this address; returns false if the block is in use.
    ///
    /// Blocks between the used part of the region and this block become free blocks.
    fn reserve(&mut self, block: usize) -> bool {
        let class = (block - self.start) / REGION;
        let first = self.start + class * REGION + HEADER;
        if class >= CLASSES || block < first || !(block - first).is_multiple_of(1 << class) {
            return false;
        }
        // SAFETY: blocks between the used part and this block are new; free blocks are linked
        // through their first word.
        unsafe {
            while first + self.used[class] <= block {
                let new = first + self.used[class];
                ((new - HEADER) as *mut [usize; 2]).write([class, 0]);
                self.used[class] += 1 << class;
                self.release(new);
            }
            let mut link = &raw mut self.free[class];
            while *link != 0 && *link != block {
                link = *link as *mut usize;
            }
            if *link == block {
                self.changes += 1;
                link.write((block as *const usize).read());
                return true;
            }
        }
        false
    }

    fn release(&mut self, block: usize) {
        self.changes += 1;
        // SAFETY: `allocate` or `reserve` has written the block's class before the block.
        unsafe {
            let class = ((block - HEADER) as *const usize).read();
            let mut link = &raw mut self.free[class];
            while *link != 0 && *link < block {
                link = *link as *mut usize;
            }
            (block as *mut usize).write(*link);
            link.write(block);
        }
    }
}

/// Returns the index of the heap that contains a block.
fn owner(block: *mut c_void) -> Option<usize> {
    let address = block as usize;
    [PROGRAM_LD_HEAP, RUNTIME_LD_HEAP]
        .iter()
        .position(|&start| (start..start + LD_HEAP_SIZE).contains(&address))
}

/// Returns the index of the heap for requests on the current stack.
///
/// The index is 0 for the program side, 1 for the runtime and MPI sides.
fn current_side() -> usize {
    let on_stack = 0u8;
    usize::from(&raw const on_stack as usize >> ZONE_SHIFT == ZONE_TAG)
}

extern "C" fn ld_malloc(size: usize) -> *mut c_void {
    let side = current_side();
    if side == 0 {
        if threads::is_for_another() {
            return former_malloc(size);
        }
        passive_libraries::hide_new_constructors();
        let reserved = NEXT_BLOCK.swap(0, Ordering::Relaxed);
        if reserved != 0 && size <= usable_size(reserved) {
            return reserved as *mut c_void;
        }
    }
    with_heap(side, |heap| heap.allocate(size))
}

fn former_malloc(size: usize) -> *mut c_void {
    // SAFETY: the address is that of ld.so's former malloc(), which `install` has stored.
    unsafe {
        let malloc: extern "C" fn(usize) -> *mut c_void =
            core::mem::transmute(FORMER_FUNCTIONS[0].load(Ordering::Relaxed));
        malloc(size)
    }
}

/// Returns the size of a block of these heaps in bytes, without its header.
fn usable_size(block: usize) -> usize {
    // SAFETY: the callers pass blocks of these heaps, before which the class is stored.
    (1 << unsafe { ((block - HEADER) as *const usize).read() }) - HEADER
}

/// Allocates a link map for the program side, if possible at the next of [`LINK_MAPS`].
///
/// Link maps are allocated here in every thread, because their addresses must be equal in a
/// replacement. (libc opens a library in the thread that calls pthread_exit(3).) Other blocks that
/// ld.so allocates in threads other than the main one come from the program's heap.
fn link_map(size: usize) -> *mut c_void {
    // SAFETY: the runtime sets the list before it opens libraries, and only in the thread that
    // opens them; a block's header precedes it.
    unsafe {
        let list = &raw mut LINK_MAPS;
        let reserved = (*list)[0];
        let block = if reserved == 0 || size > usable_size(reserved) {
            passive_libraries::hide_new_constructors();
            let is_blocked = threads::block_stops();
            let block = with_heap(0, |heap| heap.allocate(size));
            if is_blocked {
                stop::unblock();
            }
            block
        } else {
            core::ptr::copy(
                list.cast::<usize>().add(1),
                list.cast::<usize>(),
                MAX_LIBRARY_ADDRESSES - 1,
            );
            reserved as *mut c_void
        };
        if owner(block) == Some(0) {
            block
                .byte_sub(HEADER)
                .cast::<usize>()
                .add(1)
                .write(LINK_MAP);
        }
        block
    }
}

extern "C" fn ld_calloc(count: usize, size: usize) -> *mut c_void {
    let Some(total) = count.checked_mul(size) else {
        return core::ptr::null_mut();
    };
    let is_link_map = size == 1 && count >= MIN_LINK_MAP_SIZE && current_side() == 0;
    let is_dtv = size == DTV_ENTRY_SIZE && current_side() == 0;
    let block = if is_link_map {
        link_map(total)
    } else if is_dtv {
        threads::count_libc_thread();
        former_malloc(total)
    } else {
        ld_malloc(total)
    };
    if !block.is_null() {
        // SAFETY: the block has at least this size.
        unsafe { core::ptr::write_bytes(block.cast::<u8>(), 0, total) };
    }
    block
}

/// Releases a block.
///
/// A block of the runtime side's heap that the program side releases is not freed. A rollback
/// restores ld.so's data, which may then refer to the block again, but does not restore this heap.
unsafe extern "C" fn ld_free(block: *mut c_void) {
    match owner(block) {
        Some(1) if current_side() == 0 => {}
        Some(index) => with_heap(index, |heap| heap.release(block as usize)),
        None if block.is_null() => {}
        None => {
            // SAFETY: the pointer is ld.so's former free(), and the former malloc() or calloc() has
            // allocated the block.
            unsafe {
                let free: unsafe extern "C" fn(*mut c_void) =
                    core::mem::transmute(FORMER_FUNCTIONS[2].load(Ordering::Relaxed));
                free(block);
            }
        }
    }
}

unsafe extern "C" fn ld_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return ld_malloc(size);
    }
    let Some(_) = owner(block) else {
        // SAFETY: the pointer is ld.so's former realloc(), and a former function has allocated the
        // block.
        return unsafe {
            let realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void =
                core::mem::transmute(FORMER_FUNCTIONS[3].load(Ordering::Relaxed));
            realloc(block, size)
        };
    };
    // SAFETY: the class of a block precedes it; the old block is valid for its size.
    unsafe {
        let current_size = usable_size(block as usize);
        if size <= current_size {
            return block;
        }
        let bigger = ld_malloc(size);
        if !bigger.is_null() {
            core::ptr::copy_nonoverlapping(block.cast::<u8>(), bigger.cast::<u8>(), current_size);
            ld_free(block);
        }
        bigger
    }
}

unsafe extern "C" fn reserve(block: usize) -> bool {
    owner(block as *mut c_void) == Some(0) && with_heap(0, |heap| heap.reserve(block))
}

/// Returns the addresses of the heaps' data that the runtime saves, restores and sets.
pub fn layout() -> LoaderHeap {
    let heaps = &raw const HEAPS;
    // SAFETY: only addresses are taken, of statics.
    unsafe {
        LoaderHeap {
            state: (&raw mut HEAPS[0]).cast(),
            state_length: size_of::<Heap>(),
            used: [&raw const (*heaps)[0].used, &raw const (*heaps)[1].used],
            changes: &raw const (*heaps)[0].changes,
            reserve,
            link_maps: &raw mut LINK_MAPS,
            next_block: NEXT_BLOCK.as_ptr(),
        }
    }
}

/// Reason for which ld.so cannot use the two heaps.
pub enum HeapError {
    /// The pointer to this function was not found exactly once in ld.so's data.
    Function(&'static str),
    /// Mapping the heaps, or access to ld.so's data, failed with this errno.
    Memory(c_int),
}

/// Maps the two heaps, and makes ld.so use them.
pub fn install(loader: &Extent) -> Result<(), HeapError> {
    for heap in [PROGRAM_LD_HEAP, RUNTIME_LD_HEAP] {
        sys::map_anonymous(heap, LD_HEAP_SIZE, sys::MAP_NORESERVE).map_err(HeapError::Memory)?;
    }
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const core::ffi::c_char) -> *mut c_void;
    }
    let ours = [
        ld_malloc as *const () as usize,
        ld_calloc as *const () as usize,
        ld_free as *const () as usize,
        ld_realloc as *const () as usize,
    ];
    let first_page = loader.data & !4095;
    let length = (loader.data + loader.data_length - first_page).next_multiple_of(4096);
    let words = loader.data.next_multiple_of(8)..loader.data + loader.data_length - 7;
    let mut pointers = [0usize; 4];
    for (index, name) in NAMES.iter().enumerate() {
        // SAFETY: dlsym(3) with RTLD_DEFAULT; the words that are read are in ld.so's data segment.
        unsafe {
            let former = dlsym(core::ptr::null_mut(), name.as_ptr()) as usize;
            let mut matches = words
                .clone()
                .step_by(8)
                .filter(|&word| (word as *const usize).read() == former);
            let (Some(pointer), None) = (matches.next(), matches.next()) else {
                return Err(HeapError::Function(name.to_str().unwrap_or("?")));
            };
            FORMER_FUNCTIONS[index].store(former, Ordering::Relaxed);
            pointers[index] = pointer;
        }
    }
    // SAFETY: words of ld.so's data segment. Its part that ld.so has made read-only after
    // relocation (RELRO) stays writable, because the bounds of this part are unknown.
    unsafe {
        sys::protect(first_page, length, 3).map_err(HeapError::Memory)?;
        for (pointer, function) in pointers.iter().zip(ours) {
            (*pointer as *mut usize).write(function);
        }
    }
    Ok(())
}
