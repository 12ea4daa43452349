//! Completion of generalized requests by the program's functions (MPI 4.1, section 13.2).
#![allow(unsafe_code)]

use crate::abi;
use crate::arch::{call_program, call_program_through};
use crate::errors::SUCCESS;
use crate::handles::VirtComm;
use crate::requests::{EMPTY_STATUS, GeneralizedFunctions, RequestOutcome};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;

/// Call of a Fortran subroutine.
struct FortranCall {
    function: u64,
    extra: u64,
    second: Option<u64>,
    rc: c_int,
}

extern "C" fn call_subroutine(call: &mut FortranCall) -> u64 {
    let rc = &raw mut call.rc;
    // SAFETY: a subroutine of the program with two or three arguments (MPI 4.1, 13.2).
    unsafe {
        match call.second {
            Some(second) => std::mem::transmute::<usize, extern "C" fn(u64, u64, *mut c_int)>(
                call.function as usize,
            )(call.extra, second, rc),
            None => std::mem::transmute::<usize, extern "C" fn(u64, *mut c_int)>(
                call.function as usize,
            )(call.extra, rc),
        }
    }
    0
}

/// Calls a function of the program, and returns its return code.
fn call(general: GeneralizedFunctions, function: u64, second: Option<u64>) -> c_int {
    if function == 0 {
        return SUCCESS;
    }
    let extra = general.extra;
    // SAFETY: a function of this request, with the arguments that the standard defines. The program
    // has called the handler that runs.
    let rc = unsafe {
        if general.in_fortran {
            let rc = SUCCESS;
            let mut subroutine = FortranCall {
                function,
                extra,
                second,
                rc,
            };
            call_program_through(call_subroutine, &mut subroutine);
            subroutine.rc
        } else {
            call_program(
                function as *const c_void,
                [extra, second.unwrap_or(0), 0, 0, 0],
            ) as c_int
        }
    };
    abi::integer_from_program(Domain::ErrorCode, rc)
}

/// Returns the outcome of a completed request.
pub fn query(general: GeneralizedFunctions, comm: VirtComm) -> RequestOutcome {
    let (mut status, mut rc) = (EMPTY_STATUS, SUCCESS);
    abi::with_status_for_program(&mut status, |status| {
        rc = call(general, general.query, Some(status as u64));
    });
    RequestOutcome {
        status,
        rc,
        comm: Some(comm),
    }
}

/// Lets the program free its data; returns the first error code.
pub fn free(general: GeneralizedFunctions, rc: c_int) -> c_int {
    let freed = call(general, general.free, None);
    if rc == SUCCESS { freed } else { rc }
}

/// Calls the program's cancel function.
pub fn cancel(general: GeneralizedFunctions, is_complete: bool) -> c_int {
    let is_complete = c_int::from(is_complete);
    let argument = match general.in_fortran {
        true => &raw const is_complete as u64,
        false => is_complete as u64,
    };
    call(general, general.cancel, Some(argument))
}
