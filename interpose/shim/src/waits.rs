//! Waits in the MPI library: spin first, then yield, and sleep now and then.
//!
//! With its parameter `mpi_yield_when_idle`, Open MPI calls sched_yield(2) after every poll for
//! messages that finds none. A yield takes as long as ten polls, and a message between two running
//! processes arrives within that time. The first polls of a call that waits are therefore not
//! followed by a yield. Other calls, such as MPI_Test, yield at their first poll, because they may
//! be part of a loop that would otherwise never yield. For this reason, one in [`YIELD_PERIOD`]
//! polling calls also yields at its first poll.
//!
//! On Linux 6.18 a few processes that only yield keep a new process from running for ten seconds
//! and more (measured with two cores, five such processes and `sched_autogroup_enabled`). A relay
//! or a process of the launcher is such a new process. A wait within one MPI call therefore sleeps
//! briefly every [`SLEEP_PERIOD_NS`] if the kernel has run another thread on its processor since
//! the last sleep. A wait longer than [`LONG_WAIT_NS`] sleeps after every [`POLLS_PER_CLOCK_READ`]
//! polls.
//!
//! More sleep would cost too much, because a message is only seen after several polls. An agreement
//! of five processes on two cores takes 5 ms when they yield, and 100 to 460 ms when a sleep
//! follows each poll.
#![allow(unsafe_code)]

use crate::threads::libc_function;
use crate::time::{now, preemptions, sleep_briefly};
use core::ffi::c_int;
use core::hint::spin_loop;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use understudy_abi::wait_state::{BLOCKING, POLLED, POLLING};

/// Polls without a yield at the beginning of a call that waits briefly ([`POLLING`]).
///
/// An example is a call that waits for an operation on another process's memory. The polls take
/// about 1 µs.
const SPINS: u32 = 16;
/// Polls without a yield at the beginning of a blocking call ([`BLOCKING`]).
///
/// With 64 instead of 4 polls, four ranks that shared two processors took 9 % longer: a process
/// that spins keeps the process that must answer from running.
const BLOCKING_SPINS: u32 = 4;
/// Number of polling calls ([`POLLING`]) of which one yields at its first poll.
const YIELD_PERIOD: u32 = 16;
/// Polls per reading of the clock.
///
/// A reading takes half as long as a poll for messages.
const POLLS_PER_CLOCK_READ: u32 = 8;
/// First poll that reads the clock; most waits end earlier.
const FIRST_CLOCK_POLL: u32 = SPINS + POLLS_PER_CLOCK_READ;
/// Value of the poll counter after an overflow; greater than [`FIRST_CLOCK_POLL`].
const OVERFLOW_POLL: u32 = FIRST_CLOCK_POLL + POLLS_PER_CLOCK_READ;
/// Time between two sleeps of a wait, in nanoseconds.
const SLEEP_PERIOD_NS: u64 = 1_000_000;
/// Duration in nanoseconds after which a wait sleeps at each reading of the clock.
///
/// A wait of this duration loses little by a sleep.
const LONG_WAIT_NS: u64 = 1_000_000_000;

/// Kind of wait of the current MPI call ([`understudy_abi::wait_state`]).
static WAIT_KIND: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
/// Number of unsuccessful polls of the current call, plus an initial value.
///
/// A call that must yield at its first poll begins with the value [`SPINS`].
static POLLS: AtomicU32 = AtomicU32::new(SPINS);
/// Time of the first clock reading of this wait, in nanoseconds.
static WAIT_START_NS: AtomicU64 = AtomicU64::new(0);
/// Time of the next sleep, in nanoseconds.
static NEXT_SLEEP_NS: AtomicU64 = AtomicU64::new(0);
/// Number of preemptions of the waiting thread when a sleep was last due.
static PREEMPTIONS: AtomicU64 = AtomicU64::new(0);

/// Sets the byte that contains the kind of wait of the current MPI call.
///
/// Until the byte is set, all polls count as one call.
///
/// # Safety
/// The byte must live as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_mark_waits(byte: *mut AtomicU8) {
    WAIT_KIND.store(byte, Relaxed);
}

/// Returns the initial value of the poll counter for a kind of wait.
fn initial_poll_count(wait_kind: u8) -> u32 {
    static POLLING_CALLS: AtomicU32 = AtomicU32::new(0);
    match wait_kind {
        BLOCKING => SPINS - BLOCKING_SPINS,
        POLLING
            if !POLLING_CALLS
                .fetch_add(1, Relaxed)
                .is_multiple_of(YIELD_PERIOD) =>
        {
            0
        }
        _ => SPINS,
    }
}

/// Returns the number of previous polls of this call, and counts this poll.
///
/// Two threads that poll simultaneously may count as one.
pub fn count_poll() -> u32 {
    // SAFETY: null, or a byte that lives as long as the process.
    let wait_kind = unsafe { WAIT_KIND.load(Relaxed).as_ref() };
    let polls = match wait_kind.map(|byte| (byte, byte.load(Relaxed))) {
        None | Some((_, POLLED)) => POLLS.load(Relaxed),
        // The first poll of a call.
        Some((byte, kind)) => {
            byte.store(POLLED, Relaxed);
            initial_poll_count(kind)
        }
    };
    POLLS.store(polls.checked_add(1).unwrap_or(OVERFLOW_POLL), Relaxed);
    polls
}

/// Reads the clock at some polls; returns true if the wait should sleep.
fn poll_clock(polls: u32) -> bool {
    if polls < FIRST_CLOCK_POLL || !polls.is_multiple_of(POLLS_PER_CLOCK_READ) {
        return false;
    }
    let now = now();
    if polls == FIRST_CLOCK_POLL {
        WAIT_START_NS.store(now, Relaxed);
        NEXT_SLEEP_NS.store(now + SLEEP_PERIOD_NS, Relaxed);
    }
    now >= NEXT_SLEEP_NS.load(Relaxed)
}

/// Sleeps if another thread needs the processor or the wait is long.
///
/// The function also sets the time of the next sleep.
///
/// Another thread needs the processor if the kernel has preempted this thread since the last
/// sleep. Sleeping in all other cases would be expensive, because a sleep also delays the
/// processes that send to this process: MPI_Accumulate of 1 MiB took 1.3 times as long.
fn sleep_if_needed() {
    let is_long = now() - WAIT_START_NS.load(Relaxed) >= LONG_WAIT_NS;
    let preemptions = preemptions();
    if PREEMPTIONS.swap(preemptions, Relaxed) != preemptions || is_long {
        sleep_briefly();
    }
    NEXT_SLEEP_NS.store(if is_long { 0 } else { now() + SLEEP_PERIOD_NS }, Relaxed);
}

/// Yields with sched_yield(2) or sleeps, depending on the number of previous polls.
pub fn yield_or_sleep(polls: u32) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    if poll_clock(polls) {
        sleep_if_needed();
        return 0;
    }
    // SAFETY: libc's function has this type.
    let real: unsafe extern "C" fn() -> c_int =
        unsafe { transmute(libc_function(&REAL, c"sched_yield")) };
    // SAFETY: sched_yield(2) has no preconditions.
    unsafe { real() }
}

/// sched_yield(2), which the MPI library calls after an unsuccessful poll.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    match count_poll() {
        0..SPINS => {
            // Without the pause, MPI_Put of 8 bytes and a flush took 1.4 times as long: rapid polls
            // delay the answer.
            spin_loop();
            0
        }
        polls => yield_or_sleep(polls),
    }
}
