//! Ranks that are each in a separate pid namespace.
//!
//! A wrapper of each rank creates them (unshare(1), a container). Guardians, ranks and MPI
//! libraries identify processes of the node by number, and a number refers to another process
//! there.
#![allow(unsafe_code)]

use crate::aside::{self, Program};
use crate::environ::{self, PID_NAMESPACE};
use crate::msg::Line;
use crate::sys;
use core::ffi::c_char;
use core::fmt::Write;
use understudy_abi::child_effects::NAMESPACE;
use understudy_catalogue::message;

/// Refuses a program whose pid namespace differs from that of its guardian.
pub fn check(program: &Program) {
    let list = program.environment;
    // SAFETY: the program's environment.
    unsafe {
        if !is_own(list) {
            return;
        }
        if !program.is_quiet() {
            stop_if_unusable(list);
        }
    }
    program.refuse(None, &message::PID_NAMESPACE)
}

/// Ends a process whose MPI library cannot run in its pid namespace.
///
/// Open MPI names its shared-memory segments after process numbers, which are all 1 in such
/// namespaces. Ranks then crash or wait for each other without end.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn stop_if_unusable(list: *const *const c_char) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if is_own(list) && uses_shared_memory(list) {
            aside::stop(list, &message::PID_NAMESPACE_SHARED_MEMORY)
        }
    }
}

/// Returns true if the pid namespaces of this process and of its guardian differ.
///
/// # Safety
/// As [`stop_if_unusable`].
unsafe fn is_own(list: *const *const c_char) -> bool {
    // SAFETY: guaranteed by the caller.
    let Some(guardians) = (unsafe { environ::value(list, PID_NAMESPACE) }) else {
        return false;
    };
    let mut own = Line::new();
    if let Some([_, inode]) = sys::file_id(NAMESPACE) {
        let _ = write!(own, "{inode}");
    }
    own.as_bytes() != guardians
}

/// Returns true unless the environment keeps Open MPI from using shared memory.
///
/// # Safety
/// As [`stop_if_unusable`].
unsafe fn uses_shared_memory(list: *const *const c_char) -> bool {
    if cfg!(feature = "mpich") {
        return false;
    }
    // SAFETY: guaranteed by the caller.
    let components = unsafe { environ::value(list, b"OMPI_MCA_btl=") }.unwrap_or(b"^");
    let (is_exclusion, names) = match components.strip_prefix(b"^") {
        Some(names) => (true, names),
        None => (false, components),
    };
    // Open MPI 4 names the component vader.
    let names_it = names
        .split(|&byte| byte == b',')
        .any(|name| [&b"sm"[..], b"vader"].contains(&name));
    is_exclusion != names_it
}
