//! Launcher that has started this process, and the protection that it permits.
#![allow(unsafe_code)]

use crate::environ::{self, MANAGER};
use core::ffi::c_char;
use launchers::Launcher;

#[path = "../../../ckptd/launch/src/guardian/launchers.rs"]
mod launchers;

/// Protection that a process has or can get.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// The process cannot be protected.
    None,
    /// This process has a node manager and a guardian.
    Manager,
    /// This process can become a guardian.
    Guardian,
}

/// Returns the protection that this process's launcher permits.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn protection(list: *const *const c_char) -> Protection {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    if unsafe { environ::value(list, MANAGER) }.is_some() {
        return Protection::Manager;
    }
    // SAFETY: the caller guarantees that `list` is a valid environment.
    match unsafe { can_guardians_connect(list) } {
        true => Protection::Guardian,
        false => Protection::None,
    }
}

/// Returns the launcher that has started this process.
///
/// # Safety
/// The requirements of [`protection`] apply.
pub unsafe fn launcher(list: *const *const c_char) -> Option<&'static Launcher> {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    Launcher::of(|name| unsafe { environ::variable(list, name) })
}

/// Variable that every PMIx launcher sets.
pub const PMIX_RANK: &[u8] = b"PMIX_RANK=";

/// Returns true if a launcher has started this process.
///
/// # Safety
/// The requirements of [`protection`] apply.
pub unsafe fn is_launched(list: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe { launcher(list).is_some() || environ::value(list, PMIX_RANK).is_some() }
}

/// Returns true if the guardians of this job can connect to each other.
///
/// All guardians must be on one node, or the launcher must offer a service by which guardians
/// exchange their addresses.
///
/// # Safety
/// The requirements of [`protection`] apply.
unsafe fn can_guardians_connect(list: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe {
        launcher(list).is_some_and(|launcher| {
            launcher
                .address_service(|name| environ::variable(list, name))
                .is_some()
                || environ::variable(list, launcher.size)
                    == environ::variable(list, launcher.local_size)
        })
    }
}

/// Returns true if a launcher has started this process, and understudy is not disabled.
///
/// # Safety
/// The requirements of [`protection`] apply.
pub unsafe fn is_concerned(list: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe { is_launched(list) && !environ::is_on(list, b"UNDERSTUDY_DISABLE=") }
}

/// Returns true if a job that cannot be protected stops (UNDERSTUDY_REQUIRE).
///
/// # Safety
/// The requirements of [`protection`] apply.
pub unsafe fn is_protection_required(list: *const *const c_char) -> bool {
    const REQUIRE: &[u8] = b"UNDERSTUDY_REQUIRE=";
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe { environ::is_on(list, REQUIRE) || environ::value(list, REQUIRE) == Some(b"start") }
}

/// Returns true for the environment of a protected program, which its child processes inherit.
///
/// Such an environment lacks the launcher's variables, and names this library twice in LD_PRELOAD
/// ([`environ::second_execution`]). The environment of a program that may load MPI late keeps the
/// launcher's variables, and is not recognised.
///
/// # Safety
/// The requirements of [`protection`] apply.
pub unsafe fn is_of_program(list: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe {
        let preload = environ::value(list, environ::PRELOAD).unwrap_or_default();
        environ::count_own_names(preload) > 1 && !environ::strings(list).any(environ::is_hidden)
    }
}

/// Returns true if the job's launcher serves its processes with PMIx.
///
/// # Safety
/// The requirements of [`protection`] apply.
pub unsafe fn has_pmix_launcher(list: *const *const c_char) -> bool {
    let is_of_server = |entry: &[u8]| {
        entry
            .strip_prefix(environ::LAUNCHER_PREFIX)
            .is_some_and(|original| original.starts_with(b"PMIX_SERVER_URI"))
    };
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe { environ::strings(list) }.any(is_of_server)
}
