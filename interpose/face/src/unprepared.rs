//! Programs that load the MPI library although they were not prepared for it.
#![allow(unsafe_code)]

use crate::launched::{self, Protection};
use crate::{aside, pid_namespace, stray};
use core::ffi::c_char;
use understudy_catalogue::message;

/// Reports that a program uses MPI unprepared; ends it if protection is required.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn report(list: *const *const c_char) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        stray::refuse(list);
        if !launched::is_concerned(list) {
            return;
        }
        pid_namespace::stop_if_unusable(list);
        aside::note_aside(list);
        if launched::protection(list) != Protection::None {
            aside::say_unprotected(list, &message::MPI_LOADED_LATE);
        } else {
            aside::say_unprotected(list, &message::SEVERAL_NODES_WITHOUT_LAUNCHER);
        }
    }
}
