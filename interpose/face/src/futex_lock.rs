//! MPI lock, which is released without an atomic operation unless a thread waits.
//!
//! The thread that has the lock writes `lock` = 0, then reads `has_waiters`. A thread that is going
//! to wait writes `has_waiters` = 1, then reads `lock`. At least one of the two threads must see
//! the other's write; otherwise the waiting thread would sleep beside a free lock. On x86-64 this
//! requires a full barrier between the write and the read of *both* threads, since a processor may
//! delay the write. The barrier would cost the releasing thread as much as an atomic operation.
//! Waits are rare and slow anyway, so the waiting thread executes the barrier for both threads:
//! membarrier(2) returns only after every running thread of the process has executed a full
//! barrier.
#![allow(unsafe_code)]

use crate::messages::print;
use crate::sys::{nr, sys};
use crate::threads;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use understudy_abi::mpi_lock::MpiLock;
use understudy_catalogue::message;

const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;
/// `-ETIMEDOUT`
const TIMED_OUT: isize = -110;
const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER: usize = 1 << 4;

/// Timeout of a wait, after which the lock is polled: seconds and nanoseconds.
const POLL_TIMEOUT: [i64; 2] = [0, 10_000_000];
/// Timeout of a wait, after which the user is notified once: seconds and nanoseconds.
const REPORT_TIMEOUT: [i64; 2] = [10, 0];

/// True if the user has been notified of a long wait.
static HAS_REPORTED_WAIT: AtomicBool = AtomicBool::new(false);

/// Returns true if the process has one thread.
///
/// The lock is then accessed without atomic operations, which would cost more than all other code
/// of the entry.
#[inline(always)]
fn has_one_thread(mpi_lock: &MpiLock) -> bool {
    threads::count() == 0 && mpi_lock.has_inherited_threads.load(Ordering::Relaxed) == 0
}

/// Acquires the lock if it is free; returns true on success.
#[inline(always)]
pub fn try_lock(mpi_lock: &MpiLock) -> bool {
    let lock = &mpi_lock.lock;
    if has_one_thread(mpi_lock) {
        let is_free = lock.load(Ordering::Relaxed) == 0;
        if is_free {
            lock.store(1, Ordering::Relaxed);
        }
        return is_free;
    }
    lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// Announces to the thread that has the lock that the calling thread waits.
///
/// Returns true if a release will wake this thread; otherwise the thread must poll the lock.
fn announce_wait(mpi_lock: &MpiLock) -> bool {
    mpi_lock.has_waiters.store(1, Ordering::SeqCst);
    // SAFETY: membarrier(2) has no memory effects. It fails before the process has registered, and
    // on a kernel without this system call.
    let barrier = |command: usize| unsafe { sys!(nr::MEMBARRIER, command) == 0 };
    barrier(MEMBARRIER_PRIVATE_EXPEDITED)
        || barrier(MEMBARRIER_REGISTER) && barrier(MEMBARRIER_PRIVATE_EXPEDITED)
}

/// Waits for the lock, at most `max_rounds` times 10 ms; 0 means without limit.
///
/// Returns true if the lock was acquired.
#[cold]
pub fn acquire(mpi_lock: &MpiLock, max_rounds: u32) -> bool {
    const SPINS: u32 = 100;
    let spin = |_| {
        core::hint::spin_loop();
        try_lock(mpi_lock)
    };
    if try_lock(mpi_lock) || (0..SPINS).any(spin) {
        return true;
    }
    let mut round = 0;
    loop {
        let will_be_woken = announce_wait(mpi_lock);
        if try_lock(mpi_lock) {
            return true;
        }
        if max_rounds != 0 && round == max_rounds {
            return false;
        }
        round += 1;
        let waits_long = max_rounds == 0 && will_be_woken;
        let timeout = if waits_long {
            &REPORT_TIMEOUT
        } else {
            &POLL_TIMEOUT
        };
        // SAFETY: futex(2) only reads the word, which the reference keeps valid, and the constant
        // timeout.
        let result = unsafe {
            sys!(
                nr::FUTEX,
                mpi_lock.has_waiters.as_ptr(),
                FUTEX_WAIT_PRIVATE,
                1,
                timeout.as_ptr(),
                0,
                0
            )
        };
        if waits_long && result == TIMED_OUT && !HAS_REPORTED_WAIT.swap(true, Ordering::Relaxed) {
            print(&message::MPI_LOCK_WAIT);
        }
    }
}

/// Releases the lock.
///
/// Only a single waiting thread is woken. This thread sets `has_waiters` again before it acquires
/// the lock, so its own release wakes the next waiting thread.
#[inline(always)]
pub fn release(mpi_lock: &MpiLock) {
    mpi_lock.lock.store(0, Ordering::Release);
    compiler_fence(Ordering::SeqCst);
    if mpi_lock.has_waiters.load(Ordering::Relaxed) != 0 {
        wake(mpi_lock);
    }
}

#[cold]
fn wake(mpi_lock: &MpiLock) {
    mpi_lock.has_waiters.store(0, Ordering::SeqCst);
    // SAFETY: FUTEX_WAKE accesses no memory; the reference keeps the word valid.
    unsafe {
        sys!(
            nr::FUTEX,
            mpi_lock.has_waiters.as_ptr(),
            FUTEX_WAKE_PRIVATE,
            1,
            0,
            0,
            0
        )
    };
}
