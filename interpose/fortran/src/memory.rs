//! Allocator on the program's heap.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn abort() -> !;
}

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// Alignment of malloc(3).
const ALIGNMENT: usize = 16;

// SAFETY: malloc(3) and free(3); no allocation here needs a greater alignment.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        assert!(layout.align() <= ALIGNMENT);
        // SAFETY: any size is allowed.
        unsafe { malloc(layout.size()).cast() }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller passes a block of `alloc`, which has used malloc(3).
        unsafe { free(block.cast()) }
    }
}

/// Ends the process by abort(3).
pub fn abort_process() -> ! {
    // SAFETY: abort(3) has no preconditions.
    unsafe { abort() }
}
