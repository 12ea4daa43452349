//! Threads of the runtime.

#![allow(unsafe_code)]

use std::time::Duration;

/// Runs `make`, which creates a thread, with all signals blocked.
///
/// The new thread inherits the mask, so a signal for the process is delivered to a thread of the
/// program.
pub fn without_signals<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: pthread_sigmask(3) with valid sets.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let made = make();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        made
    }
}

/// Returns the processor time that this thread has used.
pub fn processor_time() -> Duration {
    // SAFETY: all-zero bytes are a valid timespec.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: clock_gettime(2) writes to a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
