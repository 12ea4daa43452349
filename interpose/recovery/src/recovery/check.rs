//! Errors of MPI calls, which start a recovery if a process has failed.

use super::failure_class::failure_class;
use super::rollback::recover;
use crate::Runtime;
use crate::abort;
use crate::arch::{self, Rewound};
use crate::errors::SUCCESS;
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_mpi as mpi;

/// Evaluates to the return code of a real procedure.
///
/// Runs the whole recovery and returns from the handler if a process has failed.
#[macro_export]
macro_rules! attempt {
    ($rt:expr, $call:expr) => {
        match $crate::recovery::check($rt, $call) {
            Ok(rc) => rc,
            Err($crate::Rewound) => return 0,
        }
    };
}

/// Checks the return code of a real procedure.
///
/// Runs the recovery if the code means that a process has failed.
#[inline]
pub fn check(rt: &Runtime, rc: c_int) -> Result<c_int, Rewound> {
    if rc == SUCCESS {
        Ok(rc)
    } else {
        classify(rt, rc)
    }
}

/// Checks the result of one of the runtime's own messages.
///
/// A failure starts a recovery; any other error ends the job.
pub fn check_own<T>(rt: &Runtime, outcome: mpi::Result<T>, what: &str) -> Result<T, Rewound> {
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => {
            classify(rt, error.code())?;
            abort::abort_with_error(rt, what, &error)
        }
    }
}

#[cold]
fn classify(rt: &Runtime, rc: c_int) -> Result<c_int, Rewound> {
    let Some(class) = failure_class(rc) else {
        return Ok(rc);
    };
    if rt.recovery.is_under_way.get() {
        // A library of the program has called MPI while the recovery was reopening libraries.
        abort::abort_with_error(
            rt,
            message::FAILURE_DURING_DLOPEN,
            &std::io::Error::other(understudy_mpi::error::text(rc)),
        );
    }
    // The program resumes outside of its callbacks, which do not return.
    arch::abandon_callbacks();
    recover(rt, class);
    Err(Rewound)
}
