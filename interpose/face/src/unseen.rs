//! Programs that children of a rank execute without this library.
//!
//! Effects of such a program on files are not reported, and so not undone. The rank names it.
#![allow(unsafe_code)]

use crate::environ::{self, PRELOAD};
use crate::told::{AT_FDCWD, tell};
use crate::unpreloadable::{self, Executed};
use crate::{child_effects, noted};
use core::ffi::c_char;
use understudy_abi::effect::UNSEEN_PROGRAM;

type Strings = *const *const c_char;

/// Reports a program without this library that a child is about to execute.
///
/// # Safety
/// `own` must be the environment of this process, `given` null or a valid environment, and
/// `executed` have valid strings.
pub unsafe fn report_execution(own: Strings, given: Strings, executed: Executed) {
    // SAFETY: handed on to the caller.
    unsafe {
        if child_effects::has_rank() {
            report(own, given, executed);
        }
    }
}

/// Reports a program that this process is about to start as its child.
///
/// Returns true as [`tell`].
///
/// # Safety
/// As [`report_execution`]; a null pointer is the environment of this process.
pub unsafe fn report_start(own: Strings, given: Strings, executed: Executed) -> bool {
    let given = if given.is_null() { own } else { given };
    let is_concerned = noted::is_protected() || child_effects::has_rank();
    // SAFETY: handed on to the caller.
    is_concerned && unsafe { report(own, given, executed) }
}

/// Reports a program that is about to be executed, if it lacks this library.
///
/// # Safety
/// As [`report_execution`].
unsafe fn report(own: Strings, given: Strings, executed: Executed) -> bool {
    // SAFETY: handed on to the caller.
    unsafe {
        let path = executed.path(own);
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
