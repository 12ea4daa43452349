//! Waits yield, but not at once, and sleep now and then.
//!
//! With `mpi_yield_when_idle` Open MPI calls sched_yield(2) as long as it waits, after every look
//! for messages: a yield takes as long as ten looks, and a message between two processes that run
//! comes meanwhile. So the first looks of a call that blocks are not followed by one. A call that
//! only tests yields as the library wants it: it may be one of a loop, which would never yield.
//!
//! On Linux 6.18 a few processes that do nothing else keep a new one from running for ten seconds
//! and more (measured with two cores, five such processes and `sched_autogroup_enabled`): a relay
//! is such a new process, and so is a launcher's. A wait within one call of MPI is therefore
//! interrupted by a short sleep every [`SLEEP_PERIOD`] if the kernel has let another thread run on
//! its processor meanwhile, and one longer than [`LONG`] only looks between two sleeps.
//!
//! More sleep would cost too much: a message is only seen after several looks, so that an agreement
//! of five processes on two cores, which takes 5 ms when they yield, takes 100 to 460 ms when each
//! look is followed by a sleep.
#![allow(unsafe_code)]

use crate::threads::next;
use crate::time::{now, preemptions, sleep_briefly};
use core::ffi::c_int;
use core::hint::spin_loop;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use understudy_abi::wait::{BLOCKS, LOOKED, RETURNS};

/// So many looks of a call that waits for memory of others are not followed by a yield: about 1 µs.
const SPINS: u32 = 16;
/// So many of a call that blocks: with 64 of them four ranks that shared two processors took 9 %
/// longer, since nobody comes to answer meanwhile.
const BLOCKING_SPINS: u32 = 4;
/// One in so many calls that a program may repeat until something has changed yields at its first
/// look.
const IN_A_ROW: u32 = 16;
/// One look in so many is timed: a look at the clock takes half as long as a look for messages.
const TIMED: u32 = 8;
/// The first one that is: most waits are over before.
const FIRST_TIMED: u32 = SPINS + TIMED;
/// A count of looks that never is the first timed one.
const RECURRING: u32 = FIRST_TIMED + TIMED;
/// How long a wait only yields between two sleeps, in nanoseconds.
const SLEEP_PERIOD: u64 = 1_000_000;
/// After so many nanoseconds it sleeps after each look: it has not much to lose any more.
const LONG: u64 = 1_000_000_000;

/// What the call of MPI waits for ([`understudy_abi::wait`]).
static CALL: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
/// How many looks of the call have been in vain. A call that does not block begins behind the first
/// ones.
static LOOKS: AtomicU32 = AtomicU32::new(SPINS);
/// When the call has looked a few times, in nanoseconds.
static SINCE: AtomicU64 = AtomicU64::new(0);
/// When it sleeps next.
static NEXT_SLEEP: AtomicU64 = AtomicU64::new(0);
/// How often the kernel had let others run in place of the thread that waits, at the last sleep or
/// at what came instead.
static PREEMPTIONS: AtomicU64 = AtomicU64::new(0);

/// Tells the shim where it finds what a call of MPI waits for. Before, everything is one call.
///
/// # Safety
/// The byte must live as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_mark_waits(byte: *mut AtomicU8) {
    CALL.store(byte, Relaxed);
}

/// As how many looks in vain a call begins.
fn first_look(call: u8) -> u32 {
    static REPEATED: AtomicU32 = AtomicU32::new(0);
    match call {
        BLOCKS => SPINS - BLOCKING_SPINS,
        RETURNS if !REPEATED.fetch_add(1, Relaxed).is_multiple_of(IN_A_ROW) => 0,
        _ => SPINS,
    }
}

/// How many looks of this call were in vain before this one. Two threads that look at once may
/// count as one.
pub fn look() -> u32 {
    // SAFETY: null, or a byte that lives as long as the process.
    let call = unsafe { CALL.load(Relaxed).as_ref() };
    let looks = match call.map(|call| (call, call.load(Relaxed))) {
        None | Some((_, LOOKED)) => LOOKS.load(Relaxed),
        Some((call, before)) => {
            call.store(LOOKED, Relaxed);
            first_look(before)
        }
    };
    LOOKS.store(looks.checked_add(1).unwrap_or(RECURRING), Relaxed);
    looks
}

/// Whether a wait should sleep instead of yielding that has looked so often.
fn is_time_to_sleep(looks: u32) -> bool {
    if looks < FIRST_TIMED || !looks.is_multiple_of(TIMED) {
        return false;
    }
    let now = now();
    if looks == FIRST_TIMED {
        SINCE.store(now, Relaxed);
        NEXT_SLEEP.store(now + SLEEP_PERIOD, Relaxed);
    }
    now >= NEXT_SLEEP.load(Relaxed)
}

/// Sleeps if others want the processor or the wait is long, and says when to do so again. A sleep
/// is paid twice, by the one who sends to this process as well: without others, 1 MiB by
/// MPI_Accumulate to memory of a program took 1.3 times as long.
fn sleep() {
    let is_long = now() - SINCE.load(Relaxed) >= LONG;
    let preemptions = preemptions();
    if PREEMPTIONS.swap(preemptions, Relaxed) != preemptions || is_long {
        sleep_briefly();
    }
    NEXT_SLEEP.store(if is_long { 0 } else { now() + SLEEP_PERIOD }, Relaxed);
}

/// sched_yield(2), or a sleep, by a wait that has looked so often.
pub fn give_way(looks: u32) -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if is_time_to_sleep(looks) {
        sleep();
        return 0;
    }
    // SAFETY: libc's function of this type.
    let next: unsafe extern "C" fn() -> c_int = unsafe { transmute(next(&NEXT, c"sched_yield")) };
    // SAFETY: sched_yield(2).
    unsafe { next() }
}

/// sched_yield(2), which the library calls after a look in vain.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    match look() {
        0..SPINS => {
            // Without it, MPI_Put of 8 bytes and a flush took 1.4 times as long: looks in haste are
            // in the way of the answer.
            spin_loop();
            0
        }
        looks => give_way(looks),
    }
}
