//! Datatypes by class and size (MPI 4.1, 19.1.5).
#![allow(unsafe_code, clippy::missing_safety_doc)]

use crate::mpi::*;
use core::ffi::c_int;

unsafe extern "C" {
    fn PMPI_Type_size(datatype: Handle, size: *mut c_int) -> c_int;
    fn PMPI_Comm_call_errhandler(comm: Handle, class: c_int) -> c_int;
}

const WORLD: c_int = 0;

/// Open MPI's classes, sizes in bytes, and numbers of the datatypes in Fortran.
///
/// The classes are `MPI_TYPECLASS_INTEGER`, `_REAL` and `_COMPLEX`. If several datatypes match, the
/// first one is listed.
const TYPES: [(c_int, c_int, c_int); 12] = [
    (1, 1, 8),
    (1, 2, 9),
    (1, 4, 7),
    (1, 8, 11),
    (1, 16, 12),
    (2, 2, 28),
    (2, 4, 13),
    (2, 8, 15),
    (2, 16, 16),
    (3, 8, 18),
    (3, 16, 20),
    (3, 32, 21),
];

/// Returns true if the library has the datatype: compilers differ.
fn is_there(number: c_int) -> bool {
    let mut size = 0;
    // SAFETY: queries the size of a predefined datatype.
    unsafe { PMPI_Type_size(PMPI_Type_f2c(number), &mut size) == SUCCESS && size > 0 }
}

pub unsafe extern "C" fn type_match_size(
    class: *const c_int,
    size: *const c_int,
    datatype: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    let wanted = unsafe { (*class, *size) };
    let found = TYPES
        .iter()
        .find(|&&(class, size, _)| (class, size) == wanted);
    match found.filter(|&&(_, _, number)| is_there(number)) {
        Some(&(_, _, number)) => {
            put(datatype, number);
            put(ierr, SUCCESS);
        }
        None => {
            // SAFETY: invokes the error handler of MPI_COMM_WORLD.
            unsafe { PMPI_Comm_call_errhandler(PMPI_Comm_f2c(WORLD), ERR_ARG) };
            put(ierr, ERR_ARG);
        }
    }
}
