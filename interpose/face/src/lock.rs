//! The lock of the turns: giving it back takes no atomic operation, unless somebody waits.
//!
//! Who has the lock writes that it is free, then reads whether others wait; who waits writes so,
//! then reads whether the lock is free. One of the two has to see what the other one wrote.
//! membarrier(2), called by who waits, makes that true: until it returns, every running thread of
//! the process has passed a full barrier.
#![allow(unsafe_code)]

use crate::msg::say;
use crate::sys::{nr, sys};
use crate::threads;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use understudy_abi::turn::Turn;
use understudy_catalogue::message;

const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;
/// `-ETIMEDOUT`
const TIMED_OUT: isize = -110;
const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER: usize = 1 << 4;

/// How long a thread waits before it looks again: seconds, nanoseconds.
const SHORT: [i64; 2] = [0, 10_000_000];
const LONG: [i64; 2] = [10, 0];

/// Whether the user has been told that a thread waits for long.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Whether there is no other thread: nobody else looks at the lock then, and an atomic operation
/// costs more than all the rest.
#[inline(always)]
fn is_alone(turn: &Turn) -> bool {
    threads::count() == 0 && turn.has_others.load(Ordering::Relaxed) == 0
}

/// Takes the lock if it is free. Whether it was.
#[inline(always)]
pub fn try_lock(turn: &Turn) -> bool {
    let lock = &turn.lock;
    if is_alone(turn) {
        let is_free = lock.load(Ordering::Relaxed) == 0;
        if is_free {
            lock.store(1, Ordering::Relaxed);
        }
        return is_free;
    }
    lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// Says that a thread waits. Whether it will be woken; else it has to look again by itself.
fn announce(turn: &Turn) -> bool {
    turn.waited_for.store(1, Ordering::SeqCst);
    // SAFETY: membarrier(2), which is refused before the process has registered, or by a kernel
    // that does not have it.
    let barrier = |command: usize| unsafe { sys!(nr::MEMBARRIER, command) == 0 };
    barrier(MEMBARRIER_PRIVATE_EXPEDITED)
        || barrier(MEMBARRIER_REGISTER) && barrier(MEMBARRIER_PRIVATE_EXPEDITED)
}

/// Waits for the lock, for so many times 10 ms, or, if that is 0, for ever. Whether it was got.
#[cold]
pub fn acquire(turn: &Turn, rounds: u32) -> bool {
    const SPINS: u32 = 100;
    let spin = |_| {
        core::hint::spin_loop();
        try_lock(turn)
    };
    if try_lock(turn) || (0..SPINS).any(spin) {
        return true;
    }
    let mut round = 0;
    loop {
        let is_woken = announce(turn);
        if try_lock(turn) {
            return true;
        }
        if rounds != 0 && round == rounds {
            return false;
        }
        round += 1;
        let waits_long = rounds == 0 && is_woken;
        let limit = if waits_long { &LONG } else { &SHORT };
        // SAFETY: futex(2) on a word that lives.
        let result = unsafe {
            sys!(
                nr::FUTEX,
                turn.waited_for.as_ptr(),
                FUTEX_WAIT_PRIVATE,
                1,
                limit.as_ptr(),
                0,
                0
            )
        };
        if waits_long && result == TIMED_OUT && !IS_TOLD.swap(true, Ordering::Relaxed) {
            say(&message::MPI_LOCK_WAIT);
        }
    }
}

/// Gives the lock back. Who is woken says once more that a thread waits, so all are woken one after
/// the other.
#[inline(always)]
pub fn release(turn: &Turn) {
    turn.lock.store(0, Ordering::Release);
    compiler_fence(Ordering::SeqCst);
    if turn.waited_for.load(Ordering::Relaxed) != 0 {
        wake(turn);
    }
}

#[cold]
fn wake(turn: &Turn) {
    turn.waited_for.store(0, Ordering::SeqCst);
    // SAFETY: futex(2) on a word that lives.
    unsafe {
        sys!(
            nr::FUTEX,
            turn.waited_for.as_ptr(),
            FUTEX_WAKE_PRIVATE,
            1,
            0,
            0,
            0
        )
    };
}
