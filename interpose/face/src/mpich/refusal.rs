//! Procedures of MPICH that are not supported.

use super::{additions, large};
use crate::messages::print;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use understudy_catalogue::message;

/// Refuses the procedure with this index in [`additions::UNSUPPORTED`].
///
/// A message is printed once for each procedure, and the error handler of MPI_COMM_WORLD is
/// called. The runtime refuses procedures in the same way.
pub(super) extern "C" fn refuse(index: u32) -> c_int {
    const COUNT: usize = additions::UNSUPPORTED.len();
    static IS_REPORTED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let index = index as usize % COUNT;
    if !IS_REPORTED[index].swap(true, Ordering::Relaxed) {
        print(&message::unsupported_procedure_mpich(
            additions::UNSUPPORTED[index],
        ));
    }
    large::fail(
        large::ErrorSubject::None,
        additions::ERR_UNSUPPORTED_OPERATION,
    )
}
