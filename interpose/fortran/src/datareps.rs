//! Data representations of the program (MPI 4.1, 14.5.3).
//!
//! Data representations are registered through the C procedure, because Open MPI's bindings use a
//! list in the library. No library calls the subroutines, so they are passed unchanged.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]

use crate::mpi::*;
use crate::strings::string;
use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn PMPI_Register_datarep(
        datarep: *const c_char,
        read: *const c_void,
        write: *const c_void,
        extent: *const c_void,
        extra_state: *mut isize,
    ) -> c_int;
    // The constant that states that no conversion is needed, under all its names.
    fn mpi_conversion_fn_null();
    fn mpi_conversion_fn_null_();
    fn mpi_conversion_fn_null__();
    fn MPI_CONVERSION_FN_NULL();
}

/// Returns the subroutine, or null for `MPI_CONVERSION_FN_NULL`.
fn in_c(subroutine: *const c_void) -> *const c_void {
    let null: [unsafe extern "C" fn(); 4] = [
        mpi_conversion_fn_null,
        mpi_conversion_fn_null_,
        mpi_conversion_fn_null__,
        MPI_CONVERSION_FN_NULL,
    ];
    match null
        .iter()
        .any(|&null| null as usize == subroutine as usize)
    {
        true => core::ptr::null(),
        false => subroutine,
    }
}

pub unsafe extern "C" fn register_datarep(
    datarep: *const u8,
    read_fn: *const c_void,
    write_fn: *const c_void,
    extent_fn: *const c_void,
    extra_state: *mut isize,
    ierr: *mut c_int,
    datarep_length: c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires; the lengths of strings
    // come last.
    let rc = unsafe {
        let name = string(datarep, datarep_length);
        let (read, write) = (in_c(read_fn), in_c(write_fn));
        PMPI_Register_datarep(name.as_ptr().cast(), read, write, extent_fn, extra_state)
    };
    put(ierr, rc);
}
