//! Heaps of ld.so: one for each side, in place of the program's heap.
//!
//! After start-up, ld.so allocates link maps, DTVs and TLS blocks with the program's malloc.
//! Allocations for the second namespace would be rolled back with the program's heap, and would
//! move the program's own chunks. ld.so has pointers to the four functions in its data; they are
//! found by value and replaced. The stack on which a request is made decides the side to which it
//! belongs.
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
/// earlier link maps. A replacement therefore gets equal addresses.
const REGION: usize = LD_HEAP_SIZE / LD_HEAP_REGIONS;
/// Mark in the second word of a block's header: the block is a link map.
const LINK_MAP: usize = 1;
/// Minimum size of a link map.
///
/// ld.so requests link maps, and no other data of this size, with `calloc(size, 1)`
/// (`_dl_new_object` of glibc).
const MIN_LINK_MAP_SIZE: usize = 512;

/// Size of an entry of a thread's vector, by which its allocation is recognised.
///
/// ld.so requests only this vector with `calloc(entries, 16)` (`_dl_allocate_tls` of glibc), also
/// for a thread that libc creates for itself.
const VECTOR_ENTRY: usize = 16;

const _: () = assert!(CLASSES <= LD_HEAP_REGIONS && (1 << (CLASSES - 3)) == REGION);

/// Bump pointer and list of free blocks for each class.
///
/// The lists are sorted by address; ld.so allocates and frees few blocks. A library that is closed
/// and opened again gets its former address, in whatever order libraries were closed.
#[repr(C)]
struct Heap {
    start: usize,
    used: [usize; CLASSES],
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

/// Functions that ld.so used before, for blocks of these functions.
///
/// The functions are malloc, calloc, free and realloc.
static FORMER_FUNCTIONS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
const NAMES: [&core::ffi::CStr; 4] = [c"malloc", c"calloc", c"free", c"realloc"];

fn with_heap<T>(index: usize, work: impl FnOnce(&mut Heap) -> T) -> T {
    while LOCK
        .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        core::hint::spin_loop();
    }
    // SAFETY: the lock is held; the reference ends with the closure.
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

    /// Allocates this block, if it is free.
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
        // SAFETY: the block came from `allocate`, so its class precedes it.
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
    let at = block as usize;
    [PROGRAM_LD_HEAP, RUNTIME_LD_HEAP]
        .iter()
        .position(|&start| (start..start + LD_HEAP_SIZE).contains(&at))
}

fn current_side() -> usize {
    let here = 0u8;
    usize::from(&raw const here as usize >> ZONE_SHIFT == ZONE_TAG)
}

extern "C" fn ld_malloc(size: usize) -> *mut c_void {
    let side = current_side();
    if side == 0 {
        if threads::is_for_another() {
            return programs_malloc(size);
        }
        passive_libraries::hide_new_constructors();
        let wanted = NEXT_BLOCK.swap(0, Ordering::Relaxed);
        if wanted != 0 && size <= usable_size(wanted) {
            return wanted as *mut c_void;
        }
    }
    with_heap(side, |heap| heap.allocate(size))
}

fn programs_malloc(size: usize) -> *mut c_void {
    // SAFETY: the pointer is ld.so's former malloc().
    unsafe {
        let malloc: extern "C" fn(usize) -> *mut c_void =
            core::mem::transmute(FORMER_FUNCTIONS[0].load(Ordering::Relaxed));
        malloc(size)
    }
}

/// Returns the size of a block of these heaps in bytes, without its header.
fn usable_size(block: usize) -> usize {
    // SAFETY: the class of a block of these heaps precedes it.
    (1 << unsafe { ((block - HEADER) as *const usize).read() }) - HEADER
}

/// Allocates a link map for the program side, at the next listed address if any.
///
/// This includes link maps of a library that another thread opens (libc does so for
/// `pthread_exit`): a replacement gets the link map at the same address. Other allocations of ld.so
/// in such a thread may have other addresses.
fn link_map(size: usize) -> *mut c_void {
    // SAFETY: the runtime sets the list before it opens libraries, and only in the thread that
    // opens them; a block's header precedes it.
    unsafe {
        let list = &raw mut LINK_MAPS;
        let wanted = (*list)[0];
        let block = if wanted == 0 || size > usable_size(wanted) {
            passive_libraries::hide_new_constructors();
            let is_held = threads::block_stops();
            let block = with_heap(0, |heap| heap.allocate(size));
            if is_held {
                stop::unblock();
            }
            block
        } else {
            core::ptr::copy(
                list.cast::<usize>().add(1),
                list.cast::<usize>(),
                MAX_LIBRARY_ADDRESSES - 1,
            );
            wanted as *mut c_void
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
    let is_vector = size == VECTOR_ENTRY && current_side() == 0;
    let block = if is_link_map {
        link_map(total)
    } else if is_vector {
        threads::count_libc_thread();
        programs_malloc(total)
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
/// A block of the runtime side that the program side releases is kept. After a rollback, ld.so's
/// data refer to the block again, or list it as a scope to be freed, while the heap of the runtime
/// side has not been rolled back.
unsafe extern "C" fn ld_free(block: *mut c_void) {
    match owner(block) {
        Some(1) if current_side() == 0 => {}
        Some(index) => with_heap(index, |heap| heap.release(block as usize)),
        None if block.is_null() => {}
        None => {
            // SAFETY: the pointer is ld.so's former free(); its companion has allocated the block.
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
        // SAFETY: as in `ld_free`.
        return unsafe {
            let realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void =
                core::mem::transmute(FORMER_FUNCTIONS[3].load(Ordering::Relaxed));
            realloc(block, size)
        };
    };
    // SAFETY: the class of a block precedes it; the old block is valid for its size.
    unsafe {
        let room = usable_size(block as usize);
        if size <= room {
            return block;
        }
        let bigger = ld_malloc(size);
        if !bigger.is_null() {
            core::ptr::copy_nonoverlapping(block.cast::<u8>(), bigger.cast::<u8>(), room);
            ld_free(block);
        }
        bigger
    }
}

unsafe extern "C" fn reserve(block: usize) -> bool {
    owner(block as *mut c_void) == Some(0) && with_heap(0, |heap| heap.reserve(block))
}

/// Returns the data of the program side's heap that the runtime saves, restores and sets.
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

/// Makes ld.so use the two heaps.
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
    let mut places = [0usize; 4];
    for (index, name) in NAMES.iter().enumerate() {
        // SAFETY: dlsym(3) with RTLD_DEFAULT; the words that are read are in ld.so's data segment.
        unsafe {
            let theirs = dlsym(core::ptr::null_mut(), name.as_ptr()) as usize;
            let mut found = words
                .clone()
                .step_by(8)
                .filter(|&word| (word as *const usize).read() == theirs);
            let (Some(place), None) = (found.next(), found.next()) else {
                return Err(HeapError::Function(name.to_str().unwrap_or("?")));
            };
            FORMER_FUNCTIONS[index].store(theirs, Ordering::Relaxed);
            places[index] = place;
        }
    }
    // SAFETY: ld.so's data. The part that was read-only after relocation stays writable, because
    // its bounds are unknown.
    unsafe {
        sys::protect(first_page, length, 3).map_err(HeapError::Memory)?;
        for (place, function) in places.iter().zip(ours) {
            (*place as *mut usize).write(function);
        }
    }
    Ok(())
}
