//! The launcher that has started this process, and the protection that it allows.
#![allow(unsafe_code)]

use crate::environ::{self, MANAGER};
use core::ffi::c_char;
use launchers::Launcher;

#[path = "../../../ckptd/launch/src/guardian/launchers.rs"]
mod launchers;

/// How a failed job can go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    None,
    /// This process has a process manager, and a guardian.
    Manager,
    /// This process can become a guardian.
    Guardian,
}

/// What this process's launcher allows.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn protection(list: *const *const c_char) -> Protection {
    // SAFETY: handed on to the caller.
    if unsafe { environ::value(list, MANAGER) }.is_some() {
        return Protection::Manager;
    }
    // SAFETY: handed on to the caller.
    match unsafe { can_meet(list) } {
        true => Protection::Guardian,
        false => Protection::None,
    }
}

/// The launcher that has started this process.
///
/// # Safety
/// As [`protection`].
pub unsafe fn launcher(list: *const *const c_char) -> Option<&'static Launcher> {
    // SAFETY: handed on to the caller.
    Launcher::of(|name| unsafe { environ::variable(list, name) })
}

/// What every PMIx launcher tells.
pub const PMIX_RANK: &[u8] = b"PMIX_RANK=";

/// Whether a launcher has started this process.
///
/// # Safety
/// As [`protection`].
pub unsafe fn is_launched(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    unsafe { launcher(list).is_some() || environ::value(list, PMIX_RANK).is_some() }
}

/// Whether the guardians of this job can find each other: on one node, or by their launcher.
///
/// # Safety
/// As [`protection`].
unsafe fn can_meet(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    unsafe {
        launcher(list).is_some_and(|launcher| {
            launcher
                .meeting(|name| environ::variable(list, name))
                .is_some()
                || environ::variable(list, launcher.size)
                    == environ::variable(list, launcher.local_size)
        })
    }
}

/// Whether a launcher has started this job, and the layer is not switched off.
///
/// # Safety
/// As [`protection`].
pub unsafe fn is_concerned(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    unsafe { is_launched(list) && !environ::is_on(list, b"UNDERSTUDY_DISABLE=") }
}

/// Returns true if a job that cannot be protected stops (UNDERSTUDY_REQUIRE).
///
/// # Safety
/// As [`protection`].
pub unsafe fn is_protection_required(list: *const *const c_char) -> bool {
    const REQUIRE: &[u8] = b"UNDERSTUDY_REQUIRE=";
    // SAFETY: handed on to the caller.
    unsafe { environ::is_on(list, REQUIRE) || environ::value(list, REQUIRE) == Some(b"start") }
}

/// Returns true for the environment of a program of a protected job.
///
/// Child processes inherit it. It has nothing of the launcher's, and this library twice in
/// LD_PRELOAD ([`environ::fixed`]).
///
/// # Safety
/// As [`protection`].
pub unsafe fn is_of_program(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    unsafe {
        let preload = environ::value(list, environ::PRELOAD).unwrap_or_default();
        environ::mentions(preload) > 1 && !environ::strings(list).any(environ::is_hidden)
    }
}

/// Returns true if the job's launcher serves its processes by PMIx.
///
/// # Safety
/// As [`protection`].
pub unsafe fn has_pmix_launcher(list: *const *const c_char) -> bool {
    let is_of_server = |entry: &[u8]| {
        entry
            .strip_prefix(environ::LAUNCHERS)
            .is_some_and(|was| was.starts_with(b"PMIX_SERVER_URI"))
    };
    // SAFETY: handed on to the caller.
    unsafe { environ::strings(list) }.any(is_of_server)
}
