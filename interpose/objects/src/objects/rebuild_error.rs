//! Logging of objects that could not be rebuilt.

use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_mpi::call;

/// Logs that an object could not be rebuilt.
///
/// Logs nothing if a further failure is the reason: the next attempt rebuilds all objects.
pub(super) fn log_not_rebuilt(what: &str, rc: c_int) {
    if rc != call::ABANDONED && !call::is_over() {
        log::error!(
            "{}",
            message::object_not_rebuilt(what, understudy_mpi::error::text(rc))
        );
    }
}
