//! Actions of signals, and the mask of the calling thread.
#![allow(unsafe_code)]

/// The kernel's `struct sigaction` on x86-64: handler, flags, restorer, mask.
pub type Action = [u64; 4];

/// Number of the highest signal.
pub const SIGNALS: i64 = 64;
/// Value in place of a handler: the default action.
pub const SIG_DFL: u64 = 0;
/// Value in place of a handler: the signal is ignored.
pub const SIG_IGN: u64 = 1;
/// Action that ignores a signal; setting the action discards a pending signal (signal(7)).
pub const IGNORE: Action = [SIG_IGN, 0, 0, 0];

/// Returns the action of a signal, and sets it to `new` if given.
///
/// Bypasses libc, which reserves two signals for itself.
pub fn action(signal: i64, new: Option<&Action>) -> Action {
    let mut old: Action = [0; 4];
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: rt_sigaction(2) with the kernel's structure and mask size.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, &raw mut old, 8usize) };
    old
}

/// Returns this thread's signal mask, and sets it to `new` if given.
///
/// Bypasses libc, which reserves two signals for itself.
pub fn mask(new: Option<u64>) -> u64 {
    let mut old = 0u64;
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: rt_sigprocmask(2) with masks of eight bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            new,
            &raw mut old,
            8usize,
        )
    };
    old
}
