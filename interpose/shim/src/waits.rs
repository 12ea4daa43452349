//! Long waits sleep.
//!
//! With `mpi_yield_when_idle` Open MPI calls sched_yield(2) as long as it waits. On Linux 6.18 a few processes that do
//! nothing else keep a new one from running for ten seconds and more (measured with two cores, five such processes and
//! `sched_autogroup_enabled`): a relay is such a new process, and so is a launcher's. A wait that lasts longer than
//! [`PATIENCE`] within one call of MPI therefore goes on with short sleeps, which costs it a twentieth of its length at most.
#![allow(unsafe_code)]

use crate::threads::next;
use crate::time::{nap, now};
use core::ffi::c_int;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};

/// How long a wait only yields, in nanoseconds.
const PATIENCE: u64 = 1_000_000;

/// Where a bit is set by a wait, and cleared at the end of the call of MPI that it was in.
static CALL: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
/// That bit.
static BIT: AtomicU8 = AtomicU8::new(0);
/// When the call yielded for the first time, in nanoseconds.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Tells the shim of a byte in which `bit` is cleared at the end of every call of MPI. Before, everything is one call.
///
/// # Safety
/// The byte must live as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_mark_waits(byte: *mut AtomicU8, bit: u8) {
    BIT.store(bit, Relaxed);
    CALL.store(byte, Relaxed);
}

/// Whether the wait that yields now has lasted so long that it may sleep.
fn is_long() -> bool {
    let now = now();
    // SAFETY: null, or a byte that lives as long as the process.
    let is_first = match unsafe { CALL.load(Relaxed).as_ref() } {
        Some(call) => {
            let bit = BIT.load(Relaxed);
            call.load(Relaxed) & bit == 0 && call.fetch_or(bit, Relaxed) & bit == 0
        }
        None => SINCE.load(Relaxed) == 0,
    };
    if is_first {
        SINCE.store(now, Relaxed);
    }
    now - SINCE.load(Relaxed) >= PATIENCE
}

/// sched_yield(2)
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if is_long() {
        nap();
        return 0;
    }
    // SAFETY: libc's function of this type.
    let next: unsafe extern "C" fn() -> c_int = unsafe { transmute(next(&NEXT, c"sched_yield")) };
    // SAFETY: sched_yield(2).
    unsafe { next() }
}
