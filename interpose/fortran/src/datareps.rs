//! Data representations of the program (MPI 4.1, 14.5.3): subroutines that get numbers, and everything by its address.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]

use crate::mpi::*;
use crate::strings::string;
use alloc::boxed::Box;
use core::ffi::{c_char, c_int, c_void};

/// Buffer, datatype, number of elements, buffer of the file, position, extra state, error code.
type Convert = unsafe extern "C" fn(
    *mut c_void,
    *mut c_int,
    *mut c_int,
    *mut c_void,
    *mut i64,
    *mut isize,
    *mut c_int,
);
/// Datatype, extent, extra state, error code.
type Extent = unsafe extern "C" fn(*mut c_int, *mut isize, *mut isize, *mut c_int);
type ConvertInC =
    unsafe extern "C" fn(*mut c_void, Handle, c_int, *mut c_void, i64, *mut Subroutines) -> c_int;
type ExtentInC = unsafe extern "C" fn(Handle, *mut isize, *mut Subroutines) -> c_int;

unsafe extern "C" {
    fn PMPI_Register_datarep(
        datarep: *const c_char,
        read: Option<ConvertInC>,
        write: Option<ConvertInC>,
        extent: ExtentInC,
        extra_state: *mut Subroutines,
    ) -> c_int;
    // What says that there is nothing to convert.
    fn mpi_conversion_fn_null();
    fn mpi_conversion_fn_null_();
    fn mpi_conversion_fn_null__();
    fn MPI_CONVERSION_FN_NULL();
}

/// What the functions in C get as extra state: the program's subroutines, and its own.
#[repr(C)]
struct Subroutines {
    read: Convert,
    write: Convert,
    extent: Extent,
    extra_state: *mut isize,
}

/// # Safety
/// Arguments of a conversion function.
unsafe extern "C" fn convert<const READS: bool>(
    userbuf: *mut c_void,
    datatype: Handle,
    mut count: c_int,
    filebuf: *mut c_void,
    mut position: i64,
    all: *mut Subroutines,
) -> c_int {
    let mut ierr = SUCCESS;
    // SAFETY: the caller's promise.
    unsafe {
        let function = if READS { (*all).read } else { (*all).write };
        let (mut number, extra_state) = (PMPI_Type_c2f(datatype), (*all).extra_state);
        function(
            userbuf,
            &mut number,
            &mut count,
            filebuf,
            &mut position,
            extra_state,
            &mut ierr,
        );
    }
    ierr
}

unsafe extern "C" fn extent(datatype: Handle, extent: *mut isize, all: *mut Subroutines) -> c_int {
    let mut ierr = SUCCESS;
    // SAFETY: arguments of an extent function.
    unsafe {
        let mut number = PMPI_Type_c2f(datatype);
        ((*all).extent)(&mut number, extent, (*all).extra_state, &mut ierr);
    }
    ierr
}

fn is_null(function: Convert) -> bool {
    let null: [unsafe extern "C" fn(); 4] = [
        mpi_conversion_fn_null,
        mpi_conversion_fn_null_,
        mpi_conversion_fn_null__,
        MPI_CONVERSION_FN_NULL,
    ];
    null.iter().any(|&null| null as usize == function as usize)
}

/// The subroutines are used as long as the program runs.
pub unsafe extern "C" fn register_datarep(
    datarep: *const u8,
    read_fn: Convert,
    write_fn: Convert,
    extent_fn: Extent,
    extra_state: *mut isize,
    ierr: *mut c_int,
    datarep_length: c_int,
) {
    let all = Box::into_raw(Box::new(Subroutines {
        read: read_fn,
        write: write_fn,
        extent: extent_fn,
        extra_state,
    }));
    let in_c = |function: Convert, by: ConvertInC| (!is_null(function)).then_some(by);
    // SAFETY: arguments of the program, as the standard says; the lengths of strings come last.
    let rc = unsafe {
        let name = string(datarep, datarep_length);
        let (read, write) = (
            in_c(read_fn, convert::<true>),
            in_c(write_fn, convert::<false>),
        );
        PMPI_Register_datarep(name.as_ptr().cast(), read, write, extent, all)
    };
    put(ierr, rc);
}
