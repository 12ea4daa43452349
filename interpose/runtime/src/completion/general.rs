//! Generalized requests end: the program's functions are called (MPI 4.1, section 13.2).
#![allow(unsafe_code)]

use crate::abi;
use crate::arch::call_user;
use crate::errors::SUCCESS;
use crate::handles::VirtComm;
use crate::requests::{EMPTY, General, Outcome};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;

/// What a function of the program has returned.
fn call(function: u64, extra: u64, second: u64) -> c_int {
    if function == 0 {
        return SUCCESS;
    }
    // SAFETY: a function of this request, with the arguments that the standard says; a handler runs, called by the program.
    let rc = unsafe { call_user(function as *const c_void, extra, second, 0, 0, 0) };
    abi::integer_of_program(Domain::ErrorCode, rc as c_int)
}

/// The outcome of one that has been completed.
pub fn query(general: General, comm: VirtComm) -> Outcome {
    let (mut status, mut rc) = (EMPTY, SUCCESS);
    abi::with_status_for_program(&mut status, |status| {
        rc = call(general.query, general.extra, status as u64);
    });
    Outcome {
        status,
        rc,
        comm: Some(comm),
    }
}

/// The program frees what belongs to it; with the first error code.
pub fn free(general: General, rc: c_int) -> c_int {
    let freed = call(general.free, general.extra, 0);
    if rc == SUCCESS { freed } else { rc }
}

/// The program is told that it is to be cancelled.
pub fn cancel(general: General, is_complete: bool) -> c_int {
    call(general.cancel, general.extra, u64::from(is_complete))
}
