//! `MPI_Register_datarep` (MPI 4.1, 14.5.3), implemented by the library.
//!
//! No MPI library calls conversion functions (open-mpi/ompi#14013, pmodels/mpich#7873), so the
//! runtime does not call them either.
#![allow(unsafe_code)]

use super::file_failure::{finish, local};
use crate::calls::runtime;
use crate::generated::Proc;
use crate::generated::callbacks::{DatarepConversionFn, DatarepExtentFn};
use crate::handles::VirtDatatype;
use crate::objects::errhandler;
use crate::objects::file::representation;
use std::ffi::{CStr, c_char, c_int, c_void};

pub unsafe extern "C" fn MPI_Register_datarep(
    datarep: *const c_char,
    read_conversion_fn: DatarepConversionFn<VirtDatatype>,
    write_conversion_fn: DatarepConversionFn<VirtDatatype>,
    dtype_file_extent_fn: DatarepExtentFn<VirtDatatype>,
    _extra_state: *mut c_void,
) -> c_int {
    let rt = runtime();
    let given = [
        read_conversion_fn.is_some(),
        write_conversion_fn.is_some(),
        dtype_file_extent_fn.is_some(),
    ];
    // SAFETY: MPI requires the program to pass a C string; null is allowed here.
    let rc = unsafe { representation::register_real(datarep, given) };
    if !datarep.is_null() {
        // SAFETY: MPI requires the program to pass a C string.
        let name = unsafe { CStr::from_ptr(datarep) };
        representation::record(rt, name, given, rc);
    }
    finish(
        rt,
        Proc::MPI_Register_datarep,
        errhandler::null_file(rt),
        local(rc),
    )
}
