//! Threads of the runtime beside the program's.

#![allow(unsafe_code)]

use std::time::Duration;

/// Makes a thread that gets no signals. It inherits the signal mask of the one that makes it, and a
/// signal for the process must find the program's thread.
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

/// The processor time that this thread has used.
pub fn processor_time() -> Duration {
    // SAFETY: a plain structure.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: clock_gettime(2) writes a time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
