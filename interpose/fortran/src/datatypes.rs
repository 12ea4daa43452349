//! Datatypes by class and size (MPI 4.1, 19.1.5).
#![allow(unsafe_code, clippy::missing_safety_doc)]

use crate::mpi::{ERR_ARG, SUCCESS, put};
use core::ffi::c_int;

/// Classes of Open MPI: `MPI_TYPECLASS_INTEGER`, `_REAL` and `_COMPLEX`; size in bytes; the datatype in Fortran.
const TYPES: [(c_int, c_int, c_int); 12] = [
    (1, 1, 8),
    (1, 2, 9),
    (1, 4, 10),
    (1, 8, 11),
    (1, 16, 12),
    (2, 2, 28),
    (2, 4, 14),
    (2, 8, 15),
    (2, 16, 16),
    (3, 8, 19),
    (3, 16, 20),
    (3, 32, 21),
];

pub unsafe extern "C" fn type_match_size(
    class: *const c_int,
    size: *const c_int,
    datatype: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: arguments of the program, as the standard says.
    let wanted = unsafe { (*class, *size) };
    let found = TYPES.iter().find(|&&(class, size, _)| (class, size) == wanted);
    put(datatype, found.map_or(0, |&(_, _, number)| number));
    put(ierr, if found.is_some() { SUCCESS } else { ERR_ARG });
}
