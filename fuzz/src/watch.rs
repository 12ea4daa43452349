//! An allocator that notes how much is asked for at once: nobody may allocate what bytes only
//! claim.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Notes the largest allocation of each thread.
struct Watch;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as the caller says.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static WATCH: Watch = Watch;

/// The largest allocation of `act`.
pub fn largest(act: impl FnOnce()) -> usize {
    LARGEST.set(0);
    act();
    LARGEST.get()
}
