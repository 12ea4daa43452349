//! Programs that children of a rank execute without this library.
//!
//! Effects of such a program on files are not reported, and so not undone. The rank names it.
#![allow(unsafe_code)]

use crate::child_effects;
use crate::environ::{self, PRELOAD};
use crate::exec;
use crate::told::{AT_FDCWD, tell, told};
use crate::unpreloadable::{self, Executed};
use core::ffi::{c_char, c_int, c_void};
use understudy_abi::effect::UNSEEN_PROGRAM;

type Name = *const c_char;
type Strings = *const *const c_char;
type Data = *const c_void;

/// Reports a program that a child of a rank is about to execute, if it lacks this library.
///
/// # Safety
/// `given` must be null or a valid environment, and `executed` have valid strings.
pub unsafe fn report_execution(given: Strings, executed: Executed) {
    // SAFETY: handed on to the caller.
    unsafe {
        if child_effects::has_rank() {
            report(given, executed);
        }
    }
}

/// Reports a program that is about to be executed, if it lacks this library.
///
/// # Safety
/// As [`report_execution`].
unsafe fn report(given: Strings, executed: Executed) -> bool {
    // SAFETY: handed on to the caller.
    unsafe {
        let path = executed.path(exec::own_environment());
        let is_seen = has_library(given) && unpreloadable::is_preloadable(&path);
        !is_seen && path.is_file() && tell(UNSEEN_PROGRAM, AT_FDCWD, path.as_ptr(), 0)
    }
}

/// Returns true if this library is among those that the loader preloads.
///
/// # Safety
/// `given` must be null or a valid environment.
unsafe fn has_library(given: Strings) -> bool {
    // SAFETY: handed on to the caller.
    !given.is_null()
        && unsafe { environ::value(given, PRELOAD) }.is_some_and(|it| environ::mentions(it) > 0)
}

/// Reports a program that this process is about to start as its child.
///
/// # Safety
/// As [`report_execution`]; a null pointer is the environment of this process.
unsafe fn starts(given: Strings, executed: Executed) -> bool {
    // SAFETY: handed on to the caller.
    unsafe {
        let given = if given.is_null() {
            exec::own_environment()
        } else {
            given
        };
        (exec::is_rank() || child_effects::has_rank()) && report(given, executed)
    }
}

told! {
    fn posix_spawn(
        process: *mut c_int, path: Name, actions: Data, attributes: Data, argv: Strings, envp: Strings
    ) -> c_int { starts(envp, Executed::Path(path)) }
    fn posix_spawnp(
        process: *mut c_int, file: Name, actions: Data, attributes: Data, argv: Strings, envp: Strings
    ) -> c_int { starts(envp, Executed::Name(file)) }
}
