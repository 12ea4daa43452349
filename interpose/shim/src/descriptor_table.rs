//! Lock of the descriptor table.
//!
//! A thread of the runtime or MPI side that creates a descriptor receives the lowest free number,
//! which is in the program's range, until the descriptor is lifted ([`crate::descriptors`]). A
//! checkpoint at this time would take the descriptor for the program's. A rollback at this time
//! might restore a file of the program at this number, and the thread would write to that file.
//! Therefore the thread that saves or restores the program's descriptors locks the table, and
//! waits until no other thread is lifting.
#![allow(unsafe_code)]

use crate::time::sleep_briefly;
use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::SeqCst;

unsafe extern "C" {
    fn gettid() -> c_int;
}

/// Number of threads that are about to lift a descriptor.
static LIFTING: AtomicI32 = AtomicI32::new(0);
/// Thread that has locked the table; zero if unlocked.
static LOCKING_THREAD: AtomicI32 = AtomicI32::new(0);
/// Nesting depth of the lock.
static DEPTH: AtomicI32 = AtomicI32::new(0);
/// Maximum number of polls for threads that are lifting a descriptor.
///
/// Such a thread may block for long before it has the descriptor, as in open(2) of a FIFO.
const MAX_POLLS: u32 = 10_000;

/// Guard that exists from before a descriptor is created until the descriptor is lifted.
pub struct LiftGuard(());

/// Begins the creation of a descriptor; blocks while another thread has locked the table.
///
/// This thread increments `LIFTING` and then reads `LOCKING_THREAD`; the locking thread writes
/// `LOCKING_THREAD` and then reads `LIFTING`. All accesses are sequentially consistent, so at least
/// one of the two threads sees the other's write and waits.
pub fn begin_lift() -> LiftGuard {
    loop {
        LIFTING.fetch_add(1, SeqCst);
        let owner = LOCKING_THREAD.load(SeqCst);
        // SAFETY: gettid(2) has no preconditions.
        if owner == 0 || owner == unsafe { gettid() } {
            return LiftGuard(());
        }
        LIFTING.fetch_sub(1, SeqCst);
        sleep_briefly();
    }
}

impl Drop for LiftGuard {
    fn drop(&mut self) {
        LIFTING.fetch_sub(1, SeqCst);
    }
}

/// Locks the table: from now on only the calling thread creates descriptors.
///
/// Calls may be nested. The function waits for threads that are lifting a descriptor, but not
/// without limit ([`MAX_POLLS`]). The lock concerns the threads of this namespace.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_hold_descriptors() {
    if DEPTH.fetch_add(1, SeqCst) > 0 {
        return;
    }
    // SAFETY: gettid(2) has no preconditions.
    LOCKING_THREAD.store(unsafe { gettid() }, SeqCst);
    for _ in 0..MAX_POLLS {
        if LIFTING.load(SeqCst) == 0 {
            return;
        }
        sleep_briefly();
    }
}

/// Unlocks the table; also called in a forked child.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_release_descriptors() {
    if DEPTH.fetch_sub(1, SeqCst) == 1 {
        LOCKING_THREAD.store(0, SeqCst);
    }
}
