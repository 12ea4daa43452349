//! What the kernel keeps for the program beside its memory: interval timers, resource limits, the alternate signal stack.
#![allow(unsafe_code)]

use std::io;

/// setitimer(2): the real, the virtual and the profiling timer.
const TIMERS: [i64; 3] = [0, 1, 2];
/// setrlimit(2): as many as the kernel has.
const LIMITS: u32 = 16;

/// `struct itimerval` as four numbers: interval and time left, in seconds and microseconds.
type Timer = [i64; 4];

/// Process-wide settings that the program may have changed.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Saved {
    timers: Vec<Timer>,
    /// Soft limits; only a privileged process could have raised a hard one.
    limits: Vec<u64>,
    /// `stack_t` as three words: address, flags, size.
    signal_stack: [u64; 3],
}

fn timer(which: i64) -> Timer {
    let mut value = [0; 4];
    // SAFETY: getitimer(2) writes a structure of this size.
    unsafe { libc::syscall(libc::SYS_getitimer, which, value.as_mut_ptr()) };
    value
}

fn limit(which: u32) -> Option<libc::rlimit64> {
    let mut value = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: prlimit64(2) of this process.
    let result = unsafe { libc::syscall(libc::SYS_prlimit64, 0, which, std::ptr::null::<u8>(), &raw mut value) };
    (result == 0).then_some(value)
}

fn signal_stack() -> [u64; 3] {
    let mut stack = [0; 3];
    // SAFETY: sigaltstack(2) writes a structure of this size.
    unsafe { libc::syscall(libc::SYS_sigaltstack, std::ptr::null::<u8>(), stack.as_mut_ptr()) };
    stack
}

/// Reads the settings.
pub fn capture() -> Saved {
    Saved {
        timers: TIMERS.map(timer).to_vec(),
        limits: (0..LIMITS)
            .map(|which| limit(which).map_or(0, |value| value.rlim_cur))
            .collect(),
        signal_stack: signal_stack(),
    }
}

/// Sets them where they differ.
pub fn restore(saved: &Saved) {
    for (which, value) in TIMERS.into_iter().zip(&saved.timers) {
        if *value != timer(which) {
            // SAFETY: setitimer(2) with a value that was read before.
            unsafe { libc::syscall(libc::SYS_setitimer, which, value.as_ptr(), std::ptr::null::<u8>()) };
        }
    }
    for (which, &soft) in (0..LIMITS).zip(&saved.limits) {
        let Some(mut value) = limit(which).filter(|value| value.rlim_cur != soft) else {
            continue;
        };
        value.rlim_cur = soft;
        // SAFETY: prlimit64(2) of this process.
        let result = unsafe { libc::syscall(libc::SYS_prlimit64, 0, which, &raw const value, std::ptr::null::<u8>()) };
        if result != 0 {
            log::warn!(
                "resource limit {which} cannot be set to {soft} again ({})",
                io::Error::last_os_error()
            );
        }
    }
    if saved.signal_stack != signal_stack() {
        // SAFETY: sigaltstack(2) with a value that was read before; the runtime has none of its own.
        unsafe {
            libc::syscall(
                libc::SYS_sigaltstack,
                saved.signal_stack.as_ptr(),
                std::ptr::null::<u8>(),
            )
        };
    }
}
