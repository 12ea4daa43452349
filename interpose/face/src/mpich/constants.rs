//! Constants of MPICH's libmpi that are pointers, and its copy function.
#![allow(unsafe_code, missing_docs)]

use core::ffi::{c_int, c_void};

/// Constant of the program, with Open MPI's value, which the runtime uses.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: usize = 2;
/// Constant of the program, with Open MPI's value, which the runtime uses.
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: usize = 3;
/// Value of [`MPI_UNWEIGHTED`] in MPICH's bindings for Fortran 2008.
#[unsafe(no_mangle)]
pub static MPIR_C_MPI_UNWEIGHTED: usize = MPI_UNWEIGHTED;
/// Value of [`MPI_WEIGHTS_EMPTY`] in MPICH's bindings for Fortran 2008.
#[unsafe(no_mangle)]
pub static MPIR_C_MPI_WEIGHTS_EMPTY: usize = MPI_WEIGHTS_EMPTY;
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: usize = usize::MAX;

/// MPI_COMM_DUP_FN and the corresponding functions (MPI 4.1, 7.7.2): copies the value.
///
/// # Safety
/// The arguments must be those of a copy function of the standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _key: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    copy: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller guarantees that the arguments are those of a copy function, whose
    // pointers are valid.
    unsafe {
        copy.write(value);
        flag.write(1);
    }
    0
}
