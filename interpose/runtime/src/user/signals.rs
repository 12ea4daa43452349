//! Signal dispositions, the signal mask, the working directory and the file mode creation mask.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use understudy_abi::{ZONE_END, ZONE_START};

/// The kernel's `struct sigaction` on x86-64: handler, flags, restorer, mask.
type Action = [u64; 4];

/// Process-wide settings that the program may have changed.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Saved {
    actions: Vec<Action>,
    mask: u64,
    directory: Vec<u8>,
    creation_mask: u32,
}

const SIGNALS: i64 = 64;

fn sigaction(signal: i64, new: *const Action, old: *mut Action) -> i64 {
    // SAFETY: rt_sigaction(2) with the kernel's structure and mask size.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, 8usize) }
}

fn belongs_to_runtime(action: &Action) -> bool {
    (ZONE_START as u64..ZONE_END as u64).contains(&action[0])
}

/// Reads the settings.
pub fn capture() -> Saved {
    let mut saved = Saved::default();
    for signal in 1..=SIGNALS {
        let mut action = [0; 4];
        sigaction(signal, std::ptr::null(), &mut action);
        saved.actions.push(action);
    }
    // SAFETY: rt_sigprocmask(2) and umask(2), which can only be read by setting it.
    unsafe {
        let none: *const u64 = std::ptr::null();
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            none,
            &raw mut saved.mask,
            8usize,
        );
        saved.creation_mask = libc::umask(0);
        libc::umask(saved.creation_mask);
    }
    saved.directory = std::env::current_dir()
        .map(|path| path.as_os_str().as_bytes().to_vec())
        .unwrap_or_default();
    saved
}

/// Sets them. Handlers of the runtime side stay this process's own.
pub fn restore(saved: &Saved) {
    for (signal, action) in (1..=SIGNALS).zip(&saved.actions) {
        let mut now = [0; 4];
        sigaction(signal, std::ptr::null(), &mut now);
        if now != *action && !belongs_to_runtime(action) {
            sigaction(signal, action, std::ptr::null_mut());
        }
    }
    // SAFETY: rt_sigprocmask(2), umask(2), chdir(2) with values that were read before.
    unsafe {
        let none: *mut u64 = std::ptr::null_mut();
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const saved.mask,
            none,
            8usize,
        );
        libc::umask(saved.creation_mask);
        if let Ok(directory) = CString::new(saved.directory.clone())
            && libc::chdir(directory.as_ptr()) != 0
        {
            log::warn!(
                "the working directory {} cannot be entered again",
                directory.to_string_lossy()
            );
        }
    }
}
