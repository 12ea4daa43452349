//! Ranks in pid namespaces of their own.
//!
//! A wrapper of each rank makes them (unshare(1), a container). Guardians, ranks and MPI libraries
//! address processes of the node by number. A number means another process there.
#![allow(unsafe_code)]

use crate::aside::{self, Program};
use crate::environ::{self, PID_NAMESPACE};
use crate::msg::Line;
use crate::sys;
use core::ffi::c_char;
use core::fmt::Write;
use understudy_abi::child_effects::NAMESPACE;
use understudy_catalogue::message;

/// Refuses a program whose pid namespace is not that of its guardian.
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

/// Ends a process whose MPI library would not run in its pid namespace.
///
/// Open MPI names its segments of shared memory after process numbers, which are all 1 in such
/// namespaces: ranks crash or wait for each other for ever.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn stop_if_unusable(list: *const *const c_char) {
    // SAFETY: handed on to the caller.
    unsafe {
        if is_own(list) && uses_shared_memory(list) {
            aside::stop(list, &message::PID_NAMESPACE_SHARED_MEMORY)
        }
    }
}

/// Returns true if this process has another pid namespace than its guardian.
///
/// # Safety
/// As [`stop_if_unusable`].
unsafe fn is_own(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
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
    // SAFETY: handed on to the caller.
    let components = unsafe { environ::value(list, b"OMPI_MCA_btl=") }.unwrap_or(b"^");
    let (is_exclusion, names) = match components.strip_prefix(b"^") {
        Some(names) => (true, names),
        None => (false, components),
    };
    // Open MPI 4 calls the component vader.
    let names_it = names
        .split(|&byte| byte == b',')
        .any(|name| [&b"sm"[..], b"vader"].contains(&name));
    is_exclusion != names_it
}
