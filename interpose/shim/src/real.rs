//! The functions of the MPI library that stand behind those that the shim has put before them.
//!
//! libmpi calls its own functions through its linkage table, so the shim's are called. A libmpi
//! that does not have one of them never calls it here.
#![allow(unsafe_code)]

use crate::progress;
use core::ffi::{c_char, c_void};
use core::sync::atomic::Ordering::Relaxed;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Finds them.
///
/// # Safety
/// `mpi` must be a handle of dlmopen(3) for the MPI library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_find_real(mpi: *mut c_void) {
    for (place, name) in &progress::REAL {
        // SAFETY: dlsym(3) with a valid handle.
        place.store(unsafe { dlsym(mpi, name.as_ptr()) } as usize, Relaxed);
    }
}
