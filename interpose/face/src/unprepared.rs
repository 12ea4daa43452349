//! Programs that load the MPI library although they were not prepared for it.
#![allow(unsafe_code)]

use crate::launched::{self, Protection};
use crate::{aside, pid_namespace, stray};
use core::ffi::c_char;

/// Reports that a program uses MPI unprepared, and ends it if it must be protected.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn report(list: *const *const c_char) {
    // SAFETY: handed on to the caller.
    unsafe {
        stray::refuse(list);
        if !launched::is_concerned(list) {
            return;
        }
        pid_namespace::stop_if_unusable(list);
        aside::note_aside(list);
        if launched::protection(list) != Protection::None {
            aside::say_unprotected(
                list,
                format_args!(
                    "the program loads the MPI library late and was not prepared for it (started by a \
                     script, or not possible here); UNDERSTUDY_LATE=1 prepares it or says why not"
                ),
            );
        } else {
            aside::say_unprotected(list, format_args!("{}", launched::SEVERAL_NODES));
        }
    }
}
