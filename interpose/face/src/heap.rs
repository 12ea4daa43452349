//! The program's heap, whose layout is equal in all ranks.
#![allow(unsafe_code)]

use crate::link;
use core::ffi::{c_int, c_void};
use core::hint::black_box;

unsafe extern "C" {
    fn mallopt(parameter: c_int, value: c_int) -> c_int;
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
type Release = unsafe extern "C" fn(*mut c_void);

const M_TRIM_THRESHOLD: c_int = -1;
const M_MMAP_THRESHOLD: c_int = -3;
const M_MMAP_MAX: c_int = -4;
const M_ARENA_MAX: c_int = -8;

/// Configures malloc(3).
///
/// malloc(3) then obtains memory by brk(2) only, uses one arena, and marks freed blocks with
/// `key`.
///
/// With several arenas, addresses of blocks would depend on the timing of the threads.
pub fn configure(key: u64) {
    // SAFETY: mallopt(3) accepts any numbers. This function runs before the program does.
    unsafe {
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_MMAP_THRESHOLD, c_int::MAX);
        mallopt(M_TRIM_THRESHOLD, 64 << 20);
        mallopt(M_ARENA_MAX, 1);
        set_key(key);
    }
}

/// Replaces the key (tcache_key) with which glibc marks the free blocks in a thread's cache.
///
/// glibc's malloc (2.34 and later) finds double frees by this random number, which it stores in the
/// second word of a freed block. This function frees a block to obtain the number, and searches
/// libc's data for the variable that contains it. If exactly one word has this value, the word is
/// overwritten. Otherwise nothing is changed: ranks then differ only in these marks.
///
/// # Safety
/// Must be called before the program frees a block.
unsafe fn set_key(key: u64) {
    const UNTOUCHED: u64 = 0x5a5a_0f0f_5a5a_0f0f;
    // SAFETY: the block has 24 bytes and stays mapped when it is freed. Its second word is accessed
    // after the release; no other thread exists that could allocate the block. The searched words
    // are those of a mapped library's writable segment.
    unsafe {
        // Without `black_box`, the compiler would use its knowledge of malloc and free, and remove
        // accesses to freed memory.
        let (malloc, free) = (black_box(malloc as Allocate), black_box(free as Release));
        let block = malloc(24).cast::<u64>();
        if block.is_null() {
            return;
        }
        let mark = block.add(1);
        mark.write_volatile(UNTOUCHED);
        free(block.cast());
        let current_key = mark.read_volatile();
        if current_key == UNTOUCHED || current_key == 0 {
            return;
        }
        let libc = link::extent(link::base_of(mallopt as *const () as usize));
        let words = libc.data_length / size_of::<u64>();
        let first = libc.data.next_multiple_of(size_of::<u64>()) as *mut u64;
        let mut matches = (0..words.saturating_sub(1))
            .map(|word| first.add(word))
            .filter(|word| word.read_volatile() == current_key);
        if let (Some(variable), None) = (matches.next(), matches.next()) {
            variable.write_volatile(key);
            mark.write_volatile(key);
        }
    }
}
