//! The program's heap: laid out alike in all ranks.
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

/// The whole heap on the program break, in one arena, and with the same key in freed blocks.
pub fn equalise(key: u64) {
    // SAFETY: mallopt(3).
    unsafe {
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_MMAP_THRESHOLD, c_int::MAX);
        mallopt(M_TRIM_THRESHOLD, 64 << 20);
        mallopt(M_ARENA_MAX, 1);
        set_key(key);
    }
}

/// glibc's malloc (2.34 and later) marks every block in a thread's cache with a random number, by
/// which it finds double frees. It is looked for in the variable that it comes from, and replaced
/// there. Where it is not found, or not just once, everything stays as it is: ranks then differ in
/// these marks only.
///
/// # Safety
/// To be called before the program has freed anything.
unsafe fn set_key(key: u64) {
    const UNTOUCHED: u64 = 0x5a5a_0f0f_5a5a_0f0f;
    // SAFETY: a block of 24 bytes, whose second word malloc uses for the mark when it is free; it
    // stays mapped. The words that are searched are those of a mapped library's writable segment.
    unsafe {
        // The compiler knows what these two functions are, and that nobody reads what has been
        // freed.
        let (malloc, free) = (black_box(malloc as Allocate), black_box(free as Release));
        let block = malloc(24).cast::<u64>();
        if block.is_null() {
            return;
        }
        let mark = block.add(1);
        mark.write_volatile(UNTOUCHED);
        free(block.cast());
        let found = mark.read_volatile();
        if found == UNTOUCHED || found == 0 {
            return;
        }
        let libc = link::extent(link::base_of(mallopt as *const () as usize));
        let words = libc.data_length / size_of::<u64>();
        let first = libc.data.next_multiple_of(size_of::<u64>()) as *mut u64;
        let mut places = (0..words.saturating_sub(1))
            .map(|word| first.add(word))
            .filter(|place| place.read_volatile() == found);
        if let (Some(place), None) = (places.next(), places.next()) {
            place.write_volatile(key);
            mark.write_volatile(key);
        }
    }
}
