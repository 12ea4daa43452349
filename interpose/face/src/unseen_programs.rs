//! Programs that children of a rank execute without this library.
//!
//! Effects of such a program on files are neither reported nor undone. Its execution is reported,
//! so that the rank prints a warning with the program's name.
#![allow(unsafe_code)]

use crate::child_effects;
use crate::effect_reports::AT_FDCWD;
use crate::environ::{self, PRELOAD};
use crate::unpreloadable::{self, ExecutedFile};
use core::ffi::c_char;
use core::ptr::null;
use understudy_abi::effect::UNSEEN_PROGRAM;

type Strings = *const *const c_char;

/// Reports a program without this library that is about to be executed.
///
/// # Safety
/// `own` must be the environment of this process, `given` must be null or a valid
/// environment, and the strings of `executed` must be valid.
pub unsafe fn report_execution(own: Strings, given: Strings, executed: ExecutedFile) {
    if !child_effects::has_rank() {
        return;
    }
    // SAFETY: the caller guarantees that the environments and the strings of `executed` are valid.
    unsafe {
        let path = executed.path(own);
        let is_seen = has_library(given) && unpreloadable::is_preloadable(&path);
        if !is_seen && path.is_file() {
            let names = [(AT_FDCWD, path.as_ptr()), (AT_FDCWD, null())];
            child_effects::report(UNSEEN_PROGRAM, names, 0);
        }
    }
}

/// Returns true if LD_PRELOAD of `given` names this library.
///
/// # Safety
/// `given` must be null or a valid environment.
unsafe fn has_library(given: Strings) -> bool {
    // SAFETY: the caller guarantees that `given`, which is not null, is a valid environment.
    !given.is_null()
        && unsafe { environ::value(given, PRELOAD) }
            .is_some_and(|preload| environ::count_own_names(preload) > 0)
}
