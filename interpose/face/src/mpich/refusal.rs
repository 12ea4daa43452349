//! Procedures of MPICH that are not supported.

use super::{additions, large};
use crate::msg::say;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use understudy_catalogue::message;

/// Refuses a procedure in the way in which the runtime refuses others.
///
/// A message is printed once, and the error handler of MPI_COMM_WORLD is called.
pub(super) extern "C" fn refuse(number: u32) -> c_int {
    const COUNT: usize = additions::UNSUPPORTED.len();
    static SAID: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let number = number as usize % COUNT;
    if !SAID[number].swap(true, Ordering::Relaxed) {
        say(&message::unsupported_procedure_mpich(
            additions::UNSUPPORTED[number],
        ));
    }
    large::fail(large::Subject::None, additions::ERR_UNSUPPORTED_OPERATION)
}
