//! Datatypes by class and size (MPI 4.1, 19.1.5).
#![allow(unsafe_code, clippy::missing_safety_doc)]

use crate::mpi::*;
use core::ffi::c_int;

unsafe extern "C" {
    fn PMPI_Type_size(datatype: Handle, size: *mut c_int) -> c_int;
    fn PMPI_Comm_call_errhandler(comm: Handle, class: c_int) -> c_int;
}

/// Fortran's handle of MPI_COMM_WORLD in Open MPI.
const WORLD: c_int = 0;

/// `MPI_TYPECLASS_INTEGER`, `MPI_TYPECLASS_REAL` and `MPI_TYPECLASS_COMPLEX` of Open MPI.
const INTEGER: c_int = 1;
const REAL: c_int = 2;
const COMPLEX: c_int = 3;

/// Datatype of a class and size.
struct SizedType {
    class: c_int,
    /// Size in bytes.
    size: c_int,
    /// Fortran's handle of the datatype in Open MPI.
    number: c_int,
}

const fn sized(class: c_int, size: c_int, number: c_int) -> SizedType {
    SizedType {
        class,
        size,
        number,
    }
}

/// Datatypes that `MPI_TYPE_MATCH_SIZE` returns, one for each class and size.
///
/// Open MPI may have several datatypes of one class and size; the table contains the first of them.
const TYPES: [SizedType; 12] = [
    sized(INTEGER, 1, 8),
    sized(INTEGER, 2, 9),
    sized(INTEGER, 4, 7),
    sized(INTEGER, 8, 11),
    sized(INTEGER, 16, 12),
    sized(REAL, 2, 28),
    sized(REAL, 4, 13),
    sized(REAL, 8, 15),
    sized(REAL, 16, 16),
    sized(COMPLEX, 8, 18),
    sized(COMPLEX, 16, 20),
    sized(COMPLEX, 32, 21),
];

/// True if the library was built with a compiler that has the datatype.
fn is_available(number: c_int) -> bool {
    let mut size = 0;
    // SAFETY: a query of a predefined datatype, with a variable for the result.
    unsafe { PMPI_Type_size(PMPI_Type_f2c(number), &mut size) == SUCCESS && size > 0 }
}

pub unsafe extern "C" fn type_match_size(
    class: *const c_int,
    size: *const c_int,
    datatype: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    let (class, size) = unsafe { (*class, *size) };
    let matching = TYPES
        .iter()
        .find(|sized| sized.class == class && sized.size == size);
    match matching.filter(|sized| is_available(sized.number)) {
        Some(sized) => {
            put(datatype, sized.number);
            put(ierr, SUCCESS);
        }
        None => {
            // SAFETY: MPI_COMM_WORLD always exists; its error handler is called.
            unsafe { PMPI_Comm_call_errhandler(PMPI_Comm_f2c(WORLD), ERR_ARG) };
            put(ierr, ERR_ARG);
        }
    }
}
