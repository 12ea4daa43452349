//! Refuses ranks whose pid namespace is not that of their guardian.
//!
//! A wrapper of a rank may create a pid namespace (unshare(1), a container). Guardians, ranks
//! and MPI libraries identify processes of the node by their numbers, which refer to other
//! processes in another namespace.
#![allow(unsafe_code)]

use crate::bypass::{self, Program};
use crate::environ::{self, PID_NAMESPACE};
use crate::messages::Line;
use crate::sys;
use core::ffi::c_char;
use core::fmt::Write;
use understudy_abi::child_effects::NAMESPACE;
use understudy_catalogue::message;

/// Refuses a program whose pid namespace differs from that of its guardian.
pub fn check(program: &Program) {
    let list = program.environment;
    // SAFETY: the caller of `Program::new` guarantees a valid environment.
    unsafe {
        if !differs_from_guardian(list) {
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
/// Open MPI names its shared-memory segments after process numbers. If each rank is process 1 of
/// its namespace, all segments have one name, and ranks crash or wait for each other without end.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn stop_if_unusable(list: *const *const c_char) {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe {
        if differs_from_guardian(list) && uses_shared_memory(list) {
            bypass::exit_refused(list, &message::PID_NAMESPACE_SHARED_MEMORY)
        }
    }
}

/// Returns true if the pid namespaces of this process and of its guardian differ.
///
/// # Safety
/// The requirements of [`stop_if_unusable`] apply.
unsafe fn differs_from_guardian(list: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    let Some(guardian_namespace) = (unsafe { environ::value(list, PID_NAMESPACE) }) else {
        return false;
    };
    let mut own = Line::new();
    if let Some([_, inode]) = sys::file_id(NAMESPACE) {
        let _ = write!(own, "{inode}");
    }
    own.as_bytes() != guardian_namespace
}

/// Returns true if the MPI library is Open MPI and may use shared memory.
///
/// # Safety
/// The requirements of [`stop_if_unusable`] apply.
unsafe fn uses_shared_memory(list: *const *const c_char) -> bool {
    if cfg!(feature = "mpich") {
        return false;
    }
    // SAFETY: the caller guarantees that `list` is a valid environment.
    let components = unsafe { environ::value(list, b"OMPI_MCA_btl=") }.unwrap_or(b"^");
    let (is_exclusion, names) = match components.strip_prefix(b"^") {
        Some(names) => (true, names),
        None => (false, components),
    };
    // The name of the component for shared memory is `vader` in Open MPI 4, else `sm`.
    let is_named = names
        .split(|&byte| byte == b',')
        .any(|name| [&b"sm"[..], b"vader"].contains(&name));
    is_exclusion != is_named
}
