//! Waits sleep now and then.
//!
//! With `mpi_yield_when_idle` Open MPI calls sched_yield(2) as long as it waits. On Linux 6.18 a few processes that do
//! nothing else keep a new one from running for ten seconds and more (measured with two cores, five such processes and
//! `sched_autogroup_enabled`): a relay is such a new process, and so is a launcher's. A wait within one call of MPI is
//! therefore interrupted by a short sleep every [`SLEEP_PERIOD`], and one longer than [`LONG`] only looks between two sleeps.
//!
//! More sleep would cost too much: a message is only seen after several looks, so that an agreement of five processes on two
//! cores, which takes 5 ms when they yield, takes 100 to 460 ms when each look is followed by a sleep.
#![allow(unsafe_code)]

use crate::threads::next;
use crate::time::{now, sleep_briefly};
use core::ffi::c_int;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

/// So many yields of a call are not timed: most waits are over by then, and a look at the clock takes as long as a look for messages.
const FEW: u32 = 8;
/// How long a wait only yields between two sleeps, in nanoseconds.
const SLEEP_PERIOD: u64 = 1_000_000;
/// After so many nanoseconds it sleeps after each look: it has not much to lose any more.
const LONG: u64 = 1_000_000_000;

/// Where a bit is set by a wait, and cleared at the end of the call of MPI that it was in.
static CALL: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
/// That bit.
static BIT: AtomicU8 = AtomicU8::new(0);
/// How many yields the call has made, but not more than [`FEW`] and one.
static YIELDS: AtomicU32 = AtomicU32::new(0);
/// When the call has yielded a few times, in nanoseconds.
static SINCE: AtomicU64 = AtomicU64::new(0);
/// When it sleeps next.
static NEXT_SLEEP: AtomicU64 = AtomicU64::new(0);

/// Tells the shim of a byte in which `bit` is cleared at the end of every call of MPI. Before, everything is one call.
///
/// # Safety
/// The byte must live as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_mark_waits(byte: *mut AtomicU8, bit: u8) {
    BIT.store(bit, Relaxed);
    CALL.store(byte, Relaxed);
}

/// Whether this is the first yield of a call of MPI, or the first one after the call's wait was declared to be over.
fn is_first() -> bool {
    // SAFETY: null, or a byte that lives as long as the process.
    match unsafe { CALL.load(Relaxed).as_ref() } {
        Some(call) => {
            let bit = BIT.load(Relaxed);
            call.load(Relaxed) & bit == 0 && call.fetch_or(bit, Relaxed) & bit == 0
        }
        None => YIELDS.load(Relaxed) == 0,
    }
}

/// Whether the wait that yields now should sleep instead.
fn is_time_to_sleep() -> bool {
    let yields = if is_first() { 0 } else { YIELDS.load(Relaxed) };
    if yields <= FEW {
        YIELDS.store(yields + 1, Relaxed);
    }
    if yields < FEW {
        return false;
    }
    let now = now();
    if yields == FEW {
        SINCE.store(now, Relaxed);
        NEXT_SLEEP.store(now + SLEEP_PERIOD, Relaxed);
    }
    now >= NEXT_SLEEP.load(Relaxed)
}

/// Sleeps, and says when to do so again.
fn sleep() {
    sleep_briefly();
    let now = now();
    let is_long = now - SINCE.load(Relaxed) >= LONG;
    NEXT_SLEEP.store(if is_long { now } else { now + SLEEP_PERIOD }, Relaxed);
}

/// sched_yield(2)
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if is_time_to_sleep() {
        sleep();
        return 0;
    }
    // SAFETY: libc's function of this type.
    let next: unsafe extern "C" fn() -> c_int = unsafe { transmute(next(&NEXT, c"sched_yield")) };
    // SAFETY: sched_yield(2).
    unsafe { next() }
}
