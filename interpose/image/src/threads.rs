//! Threads of the runtime.

#![allow(unsafe_code)]

use std::time::Duration;

/// Runs `create`, which creates a thread, with all signals blocked.
///
/// The new thread inherits the mask, so that the kernel delivers signals for the process to threads
/// of the program only.
pub fn with_signals_blocked<T>(create: impl FnOnce() -> T) -> T {
    // SAFETY: pthread_sigmask(3) with sets in this frame, which sigfillset(3) and zeros initialise.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let created = create();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        created
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
