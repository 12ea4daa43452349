//! Functions of the MPI library and UCX whose names the shim also exports.
//!
//! libmpi calls these functions through its procedure linkage table, which ld.so binds to the
//! shim's functions. A libmpi without such a function never calls the shim's function.
#![allow(unsafe_code)]

use crate::{libfabric, progress};
use core::ffi::{c_char, c_void};
use core::sync::atomic::Ordering::Relaxed;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Looks up the functions that the shim's functions of the same names call.
///
/// # Safety
/// `mpi` must be a handle of dlmopen(3) for the MPI library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_find_real(mpi: *mut c_void) {
    for (address, name) in progress::REAL.iter().chain(&libfabric::REAL) {
        // SAFETY: the caller guarantees a handle of dlmopen(3); the name is terminated.
        address.store(unsafe { dlsym(mpi, name.as_ptr()) } as usize, Relaxed);
    }
}
