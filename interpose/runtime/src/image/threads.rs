//! Threads of the runtime beside the program's.

#![allow(unsafe_code)]

/// Makes a thread that gets no signals. It inherits the signal mask of the one that makes it, and a signal for the process
/// must find the program's thread.
pub fn without_signals<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: pthread_sigmask(3) with valid sets.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let made = make();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        made
    }
}
