//! Version, integers and statuses in the ABI of the program.
#![allow(unsafe_code)]

use crate::generated::real;
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::{Domain, current};
use understudy_mpi::real_types::Status;

/// Whether the program has another ABI than Open MPI's; it always has that of its library.
pub fn is_foreign() -> bool {
    current().is_some()
}

/// Version and subversion of the standard that the library has.
pub fn standard_version() -> (c_int, c_int) {
    let [mut version, mut subversion] = [0; 2];
    // SAFETY: two places.
    unsafe { real::PMPI_Get_version(&mut version, &mut subversion) };
    (version, subversion)
}

/// Lets a callback of the program write a status of its own ABI.
pub fn with_status_for_program(status: &mut Status, callback: impl FnOnce(*mut c_void)) {
    let Some(abi) = current() else {
        return callback((&raw mut *status).cast());
    };
    let mut theirs = [0u64; 5];
    // SAFETY: there is room for a status of any ABI.
    unsafe {
        abi.write_status(theirs.as_mut_ptr().cast(), status);
        callback(theirs.as_mut_ptr().cast());
        *status = abi.read_status(theirs.as_ptr().cast());
    }
}

/// An integer as a callback of the program, or a place of it, gets it.
pub fn integer_for_program(domain: Domain, value: c_int) -> c_int {
    current().map_or(value, |abi| abi.foreign(domain, value))
}

/// An integer that a callback of the program has returned.
pub fn integer_of_program(domain: Domain, value: c_int) -> c_int {
    current().map_or(value, |abi| abi.canonical(domain, value))
}
