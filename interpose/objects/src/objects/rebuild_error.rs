//! Reports of objects that could not be made again.

use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_mpi::call;

/// Logs that an object could not be made again.
///
/// Logs nothing if a further failure is the reason: all objects are made again in the next attempt.
pub(super) fn log_not_rebuilt(what: &str, rc: c_int) {
    if rc != call::ABANDONED && !call::is_over() {
        log::error!(
            "{}",
            message::object_not_rebuilt(what, understudy_mpi::error::text(rc))
        );
    }
}
