//! Version, integers and statuses in the ABI of the program.
#![allow(unsafe_code)]

use crate::generated::real;
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::{Domain, foreign_abi};
use understudy_mpi::real_types::Status;

/// True if the program has another ABI than Open MPI's.
///
/// The program and its MPI library always have the same ABI.
#[inline]
pub fn is_foreign_abi() -> bool {
    foreign_abi().is_some()
}

/// Returns version and subversion of the MPI standard that the library implements.
pub fn standard_version() -> (c_int, c_int) {
    let [mut version, mut subversion] = [0; 2];
    // SAFETY: both arguments point to writable integers.
    unsafe { real::PMPI_Get_version(&mut version, &mut subversion) };
    (version, subversion)
}

/// Lets a callback of the program write a status in the program's ABI.
pub fn with_status_for_program(status: &mut Status, callback: impl FnOnce(*mut c_void)) {
    let Some(abi) = foreign_abi() else {
        return callback((&raw mut *status).cast());
    };
    let mut program_status = [0u64; 5];
    // SAFETY: `program_status` has room for a status of any ABI, whose bytes may have any value.
    unsafe {
        abi.write_status(program_status.as_mut_ptr().cast(), status);
        callback(program_status.as_mut_ptr().cast());
        *status = abi.read_status(program_status.as_ptr().cast());
    }
}

/// Converts an integer for a callback or a variable of the program.
pub fn integer_for_program(domain: Domain, value: c_int) -> c_int {
    foreign_abi().map_or(value, |abi| abi.foreign(domain, value))
}

/// Converts an integer that a callback of the program has returned.
pub fn integer_from_program(domain: Domain, value: c_int) -> c_int {
    foreign_abi().map_or(value, |abi| abi.canonical(domain, value))
}
