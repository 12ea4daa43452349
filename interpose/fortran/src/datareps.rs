//! Data representations of the program (MPI 4.1, 14.5.3).
//!
//! Data representations are registered through the C procedure, because Open MPI's bindings access
//! a list within the library. No MPI library calls the conversion subroutines, so their addresses
//! are passed unchanged, although their arguments differ from those of C functions.
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
    // MPI_CONVERSION_FN_NULL (no conversion is necessary) under the names that compilers give it.
    fn mpi_conversion_fn_null();
    fn mpi_conversion_fn_null_();
    fn mpi_conversion_fn_null__();
    fn MPI_CONVERSION_FN_NULL();
}

/// Returns the subroutine, or C's null for `MPI_CONVERSION_FN_NULL`.
fn c_conversion_function(subroutine: *const c_void) -> *const c_void {
    let constants: [unsafe extern "C" fn(); 4] = [
        mpi_conversion_fn_null,
        mpi_conversion_fn_null_,
        mpi_conversion_fn_null__,
        MPI_CONVERSION_FN_NULL,
    ];
    match constants
        .iter()
        .any(|&constant| constant as usize == subroutine as usize)
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
    // SAFETY: the program passes valid arguments, as the standard requires; Fortran passes the
    // lengths of strings last.
    let rc = unsafe {
        let name = string(datarep, datarep_length);
        let (read, write) = (
            c_conversion_function(read_fn),
            c_conversion_function(write_fn),
        );
        PMPI_Register_datarep(name.as_ptr().cast(), read, write, extent_fn, extra_state)
    };
    put(ierr, rc);
}
