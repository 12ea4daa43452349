//! Process state in the kernel that rolls back with the program.
//!
//! The state comprises interval timers, resource limits, the alternate signal stack, permissions to
//! use processor features, thread name, nice value, and the process number that the program sees.
#![allow(unsafe_code)]

use super::UserError;
use crate::process_info;
use std::io;
use understudy_abi::process_number::SeenNumber;
use understudy_catalogue::message;

/// Numbers of the real, the virtual and the profiling timer of setitimer(2).
const TIMERS: [i64; 3] = [0, 1, 2];
/// Number of resource limits that the kernel has (setrlimit(2)).
const LIMITS: u32 = 16;

/// `struct itimerval` as four numbers: interval and time left, in seconds and microseconds.
type IntervalTimer = [i64; 4];

/// Process-wide settings that the program may have changed.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct ProcessSettings {
    timers: Vec<IntervalTimer>,
    /// Soft limits. Only a privileged process could have raised a hard limit.
    limits: Vec<u64>,
    /// Address, flags and size of `stack_t`.
    signal_stack: [u64; 3],
    /// Processor features of [`FEATURES_ON_REQUEST`] that the program may use.
    features: u64,
    /// Name of the thread that made the cut (prctl(2), PR_SET_NAME).
    name: [u8; 16],
    nice: i32,
    /// Process number that the program sees.
    number: i32,
}

/// Processor features that a process may use only after requesting permission.
///
/// AMX's tile data is the only one so far (the kernel's Documentation/arch/x86/xstate.rst).
const FEATURES_ON_REQUEST: u64 = 1 << TILE_DATA;
const TILE_DATA: u32 = 18;

/// Returns the features of [`FEATURES_ON_REQUEST`] that this process may use.
fn features() -> u64 {
    const ARCH_GET_XCOMP_PERM: i32 = 0x1022;
    let mut permitted = 0u64;
    // SAFETY: arch_prctl(2) writes one word. A kernel without this operation does not write the
    // word.
    unsafe {
        libc::syscall(
            libc::SYS_arch_prctl,
            ARCH_GET_XCOMP_PERM,
            &raw mut permitted,
        )
    };
    permitted & FEATURES_ON_REQUEST
}

/// Requests permission for features that the process may not use yet.
///
/// A permission cannot be revoked.
fn request_features(wanted: u64) -> Result<(), UserError> {
    const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
    if wanted & !features() == 0 {
        return Ok(());
    }
    // SAFETY: arch_prctl(2) grants a permission, and accesses no memory.
    match unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) } {
        0 => Ok(()),
        _ => Err(UserError::Processor(io::Error::last_os_error())),
    }
}

fn timer(which: i64) -> IntervalTimer {
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
    // SAFETY: prlimit64(2) writes a structure of this function.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            which,
            std::ptr::null::<u8>(),
            &raw mut value,
        )
    };
    (result == 0).then_some(value)
}

fn signal_stack() -> [u64; 3] {
    let mut stack = [0; 3];
    // SAFETY: sigaltstack(2) writes a structure of this size.
    unsafe {
        libc::syscall(
            libc::SYS_sigaltstack,
            std::ptr::null::<u8>(),
            stack.as_mut_ptr(),
        )
    };
    stack
}

pub fn capture() -> ProcessSettings {
    ProcessSettings {
        timers: TIMERS.map(timer).to_vec(),
        limits: (0..LIMITS)
            .map(|which| limit(which).map_or(0, |value| value.rlim_cur))
            .collect(),
        signal_stack: signal_stack(),
        features: features(),
        name: name(),
        nice: nice(),
        number: seen_number().seen_by(own_number()),
    }
}

fn own_number() -> i32 {
    std::process::id() as i32
}

fn seen_number() -> &'static SeenNumber {
    // SAFETY: the preload library's number lives as long as the process.
    unsafe { &*process_info::info().program_process_number }
}

fn name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: prctl(2) writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Returns the nice value of the calling thread.
fn nice() -> i32 {
    // Unlike libc's function, the system call returns no value that resembles an error.
    // SAFETY: getpriority(2) accesses no memory.
    let answer = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) };
    20 - answer as i32
}

impl ProcessSettings {
    /// Returns the alternate signal stack of the thread that made the cut.
    pub fn signal_stack(&self) -> [u64; 3] {
        self.signal_stack
    }

    /// True if the program uses AMX's tile registers.
    pub fn uses_tiles(&self) -> bool {
        self.features & FEATURES_ON_REQUEST != 0
    }
}

/// Stops the timers of setitimer(2) until [`restore`].
pub fn stop_timers() {
    TIMERS
        .into_iter()
        .for_each(|which| set_timer(which, &[0; 4]));
}

fn set_timer(which: i64, value: &IntervalTimer) {
    // SAFETY: setitimer(2) with a valid value.
    unsafe {
        libc::syscall(
            libc::SYS_setitimer,
            which,
            value.as_ptr(),
            std::ptr::null::<u8>(),
        )
    };
}

/// Makes a Python interpreter see the process number of the cut.
///
/// Otherwise a running event loop (asyncio) would conclude that it belongs to another process.
/// Other programs see the kernel's number, because they compare it with the numbers of threads
/// (gettid(2)).
pub fn restore_number(saved: &ProcessSettings) {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let name = program.file_name().unwrap_or_default().as_encoded_bytes();
    if name.starts_with(b"python") {
        seen_number().set(own_number(), saved.number);
    }
}

/// Restores the state where it differs.
///
/// State of a thread is restored only if the calling thread made the cut (`is_callers`).
pub fn restore(saved: &ProcessSettings, is_callers: bool) -> Result<(), UserError> {
    // The permission is requested before anything is changed. The request fails if this process has
    // a signal stack without room for these registers.
    request_features(saved.features)?;
    for (which, value) in TIMERS.into_iter().zip(&saved.timers) {
        if *value != timer(which) {
            set_timer(which, value);
        }
    }
    for (which, &soft) in (0..LIMITS).zip(&saved.limits) {
        let Some(mut value) = limit(which).filter(|value| value.rlim_cur != soft) else {
            continue;
        };
        value.rlim_cur = soft;
        // SAFETY: prlimit64(2) reads a structure of this function.
        let result = unsafe {
            libc::syscall(
                libc::SYS_prlimit64,
                0,
                which,
                &raw const value,
                std::ptr::null::<u8>(),
            )
        };
        if result != 0 {
            log::warn!(
                "{}",
                message::limit_not_restored(which, soft, io::Error::last_os_error())
            );
        }
    }
    if !is_callers {
        return Ok(());
    }
    if saved.name != name() {
        // SAFETY: prctl(2) with a string of at most 16 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, saved.name.as_ptr()) };
    }
    // SAFETY: setpriority(2) accesses no memory; its target is this thread.
    if saved.nice != nice() && unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, saved.nice) } != 0
    {
        log::warn!(
            "{}",
            message::nice_not_restored(saved.nice, io::Error::last_os_error())
        );
    }
    if saved.signal_stack != signal_stack() {
        // SAFETY: sigaltstack(2) with a value that was read before; the runtime uses no signal
        // stack.
        unsafe {
            libc::syscall(
                libc::SYS_sigaltstack,
                saved.signal_stack.as_ptr(),
                std::ptr::null::<u8>(),
            )
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tile_registers_are_requested_or_their_lack_is_reported() {
        const ARCH_GET_XCOMP_SUPP: i32 = 0x1021;
        let mut supported = 0u64;
        // SAFETY: arch_prctl(2) writes one word.
        unsafe {
            libc::syscall(
                libc::SYS_arch_prctl,
                ARCH_GET_XCOMP_SUPP,
                &raw mut supported,
            )
        };
        assert!(request_features(0).is_ok());
        assert_eq!(features(), 0, "not requested yet");
        let answer = request_features(FEATURES_ON_REQUEST);
        if supported & FEATURES_ON_REQUEST != 0 {
            assert!(answer.is_ok(), "{answer:?}");
            assert_eq!(features(), FEATURES_ON_REQUEST);
        } else {
            let text = answer.expect_err("this processor has none").to_string();
            assert!(
                text.contains("AMX") && text.contains("same processor"),
                "{text}"
            );
        }
    }
}
