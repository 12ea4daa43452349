//! What MPICH's libmpi exports besides the procedures of the call table.
//!
//! Procedures for large counts are generated: they call the thunks of those for counts that are an int, so
//! that the runtime knows only these. `large` is what they are made of, `by_hand` has those that no rule makes.
#![allow(unsafe_code, non_snake_case, missing_docs)]

mod by_hand;
#[cfg(not(feature = "standard"))]
mod language;
mod large;

use crate::msg::say;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use understudy_catalogue::message;

#[allow(dead_code)]
mod generated {
    use core::ffi::c_int;
    include!("generated/mpich.rs");
}

/// Constants that are pointers to the program: Open MPI's values, which the runtime knows.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: usize = 2;
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: usize = 3;
/// What MPICH's bindings for Fortran 2008 hand over for them.
#[unsafe(no_mangle)]
pub static MPIR_C_MPI_UNWEIGHTED: usize = MPI_UNWEIGHTED;
#[unsafe(no_mangle)]
pub static MPIR_C_MPI_WEIGHTS_EMPTY: usize = MPI_WEIGHTS_EMPTY;
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: usize = usize::MAX;

/// MPI_COMM_DUP_FN and its like (MPI 4.1, 7.7.2): the copy is the value.
///
/// # Safety
/// As the standard says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _key: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    copy: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        copy.write(value);
        flag.write(1);
    }
    0
}

/// As the runtime refuses a procedure: it says so once, and the error handler of MPI_COMM_WORLD decides.
extern "C" fn refuse(number: u32) -> c_int {
    const COUNT: usize = generated::UNSUPPORTED.len();
    static SAID: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let number = number as usize % COUNT;
    if !SAID[number].swap(true, Ordering::Relaxed) {
        say(&message::unsupported_procedure_mpich(
            generated::UNSUPPORTED[number],
        ));
    }
    large::fail(large::Subject::None, generated::ERR_UNSUPPORTED_OPERATION)
}
