//! Arguments of handlers: message arguments, statuses, and early returns.
#![allow(unsafe_code)]

use crate::errors::{ERR_ARG, SUCCESS};
use crate::handles::{VirtComm, VirtDatatype};
use crate::requests::{EMPTY_STATUS, MessageArguments};
use std::ffi::{c_char, c_int, c_void};
use understudy_mpi::library;
use understudy_mpi::real_types::Status;

/// Writes a status unless the program ignores it.
///
/// # Safety
/// `to` must be null or valid.
#[inline]
pub unsafe fn put_status(to: *mut Status, status: Status) {
    if !to.is_null() {
        // Only procedures with several statuses set the error field (MPI 4.1, 3.2.5). MPICH from
        // 4.2 on also sets it in empty statuses.
        let writes_all = status == EMPTY_STATUS && library::mpich_version() >= (4, 2);
        // SAFETY: the caller passes null or a valid address; null is excluded above.
        unsafe {
            let error = if writes_all { SUCCESS } else { (*to).error };
            to.write(Status { error, ..status });
        }
    }
}

/// Writes a value to an address of the program; null is an error (`MPI_ERR_ARG`).
///
/// # Safety
/// `to` must be valid for the value, or null.
pub unsafe fn put<T>(to: *mut T, value: T) -> Result<(), c_int> {
    if to.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: the caller passes null or a valid address; null is excluded above.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a text with a terminating NUL.
///
/// # Safety
/// `to` has room for the text and the NUL.
pub unsafe fn put_text(to: *mut c_char, text: &[u8]) {
    // SAFETY: the caller provides room for `text.len() + 1` characters.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
}

/// Evaluates to the value of a result; leaves the handler if the program was rewound.
macro_rules! outcome {
    ($result:expr) => {
        match $result {
            Ok(outcome) => outcome,
            Err(_) => return 0,
        }
    };
}
pub(crate) use outcome;

/// Returns the arguments of a message, as requests record them.
#[inline(always)]
pub fn message_arguments(
    buffer: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    peer: c_int,
    tag: c_int,
    comm: VirtComm,
) -> MessageArguments {
    MessageArguments {
        buffer: buffer as u64,
        count,
        datatype: datatype.0 as u64,
        peer,
        tag,
        comm: comm.0 as u64,
    }
}
