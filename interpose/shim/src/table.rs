//! While the program's thread looks at the table of descriptors, or changes it, no other thread has
//! one below.
//!
//! A new descriptor has the lowest free number until it is lifted. Taken for the program's
//! meanwhile, it would be in a checkpoint; and a rollback that puts the program's file under that
//! number would make a thread of the library write to it.
#![allow(unsafe_code)]

use crate::time::sleep_briefly;
use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::SeqCst;

unsafe extern "C" {
    fn gettid() -> c_int;
}

/// How many threads are about to lift a descriptor.
static LIFTING: AtomicI32 = AtomicI32::new(0);
/// The thread that holds the table; 0 if none does.
static HOLDER: AtomicI32 = AtomicI32::new(0);
/// How often it does.
static DEPTH: AtomicI32 = AtomicI32::new(0);
/// How often the holder looks for the others: some call may block (open(2) of a FIFO).
const MOST_POLLS: u32 = 10_000;

/// From before a descriptor is made until it is lifted.
pub struct Below(());

/// Waits while another thread holds the table.
pub fn go_below() -> Below {
    loop {
        LIFTING.fetch_add(1, SeqCst);
        let holder = HOLDER.load(SeqCst);
        // SAFETY: gettid(2).
        if holder == 0 || holder == unsafe { gettid() } {
            return Below(());
        }
        LIFTING.fetch_sub(1, SeqCst);
        sleep_briefly();
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        LIFTING.fetch_sub(1, SeqCst);
    }
}

/// From now on the calling thread is the only one that makes descriptors. May be nested.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_hold_descriptors() {
    if DEPTH.fetch_add(1, SeqCst) > 0 {
        return;
    }
    // SAFETY: gettid(2).
    HOLDER.store(unsafe { gettid() }, SeqCst);
    for _ in 0..MOST_POLLS {
        if LIFTING.load(SeqCst) == 0 {
            return;
        }
        sleep_briefly();
    }
}

/// Ends [`understudy_shim_hold_descriptors`]; in a child that was forked meanwhile as well.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_release_descriptors() {
    if DEPTH.fetch_sub(1, SeqCst) == 1 {
        HOLDER.store(0, SeqCst);
    }
}
