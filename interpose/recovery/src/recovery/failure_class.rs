//! Classes of errors that mean the failure of a process.
#![allow(unsafe_code)]

use crate::errors::{ERR_IN_STATUS, ERR_INTERN, ERR_OTHER, ERR_UNKNOWN};
use crate::generated::real;
use crate::world;
use std::ffi::c_int;
use understudy_formats::events::ErrorClass;
use understudy_mpi::call;

/// Returns the class of an error that a failed process has caused.
pub fn failure_class(rc: c_int) -> Option<c_int> {
    let mut class = rc;
    // SAFETY: the procedure only writes to `class`.
    let rc_of_query = unsafe { real::PMPI_Error_class(rc, &mut class) };
    if rc_of_query == call::ABANDONED {
        // A process has failed meanwhile, so the class is not available.
        class = rc_of_query;
    }
    let means_failure = || match class {
        call::ABANDONED => true,
        ERR_UNKNOWN | ERR_OTHER | ERR_INTERN | ERR_IN_STATUS => call::await_over(),
        _ => false,
    };
    (world::is_protected() && means_failure()).then_some(class)
}

/// Returns the class as the event file has it.
pub fn error_class(class: c_int) -> ErrorClass {
    match class {
        call::ABANDONED => ErrorClass::Abandoned,
        class => ErrorClass::Other(class),
    }
}
