//! Programs that load the MPI library although they were not prepared for MPI.
#![allow(unsafe_code)]

use crate::launched::{self, Protection};
use crate::{bypass, lost_environment, pid_namespace};
use core::ffi::c_char;
use understudy_catalogue::message;

/// Reports that an unprepared program uses MPI; ends the program if it must not run.
///
/// The program must not run if protection is required, if the launcher's environment is lost, or if
/// the MPI library cannot run in this pid namespace.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn report(list: *const *const c_char) {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe {
        lost_environment::refuse(list);
        if !launched::is_concerned(list) {
            return;
        }
        pid_namespace::stop_if_unusable(list);
        bypass::mark_unprotected(list);
        if launched::protection(list) != Protection::None {
            bypass::report_unprotected(list, &message::MPI_LOADED_LATE);
        } else {
            bypass::report_unprotected(list, &message::SEVERAL_NODES_WITHOUT_LAUNCHER);
        }
    }
}
