//! Completion of any one of many requests: `MPI_Waitany` and `MPI_Testany`.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arrays::RequestArrays;
use super::{first_completed, is_pending};
use crate::Runtime;
use crate::arch::Rewound;
use crate::calls::arguments::{outcome, put_status};
use crate::calls::runtime;
use crate::completion::{self, AnyResult, CompletionCall};
use crate::error_handling::finish;
use crate::errors::SUCCESS;
use crate::generated::Proc;
use crate::handles::VirtRequest;
use crate::requests::{EMPTY_STATUS, RequestOutcome};
use crate::{cut, work_flags};
use std::ffi::c_int;
use understudy_mpi::real_types::{Status, UNDEFINED};

pub unsafe extern "C" fn MPI_Waitany(
    count: c_int,
    array_of_requests: *mut VirtRequest,
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let arrays = RequestArrays::new(count, array_of_requests, std::ptr::null_mut());
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        loop {
            // Polling also advances a checkpoint under way, or an agreement on a cut.
            let call = match work_flags::is_any_set() {
                true => CompletionCall::Test,
                false => CompletionCall::Wait,
            };
            match outcome!(any_completed(rt, &arrays, call)) {
                AnyResult::Completed(found, outcome) => {
                    return finish_any(rt, Proc::MPI_Waitany, (found, &outcome), index, status);
                }
                AnyResult::NoneActive => {
                    index.write(UNDEFINED);
                    put_status(status, EMPTY_STATUS);
                    return SUCCESS;
                }
                AnyResult::Pending | AnyResult::OneByOne => outcome!(cut::meanwhile(rt)),
            }
        }
    }
}

pub unsafe extern "C" fn MPI_Testany(
    count: c_int,
    array_of_requests: *mut VirtRequest,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let arrays = RequestArrays::new(count, array_of_requests, std::ptr::null_mut());
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        let result = outcome!(any_completed(rt, &arrays, CompletionCall::Test));
        let is_pending = matches!(result, AnyResult::Pending | AnyResult::OneByOne);
        flag.write(c_int::from(!is_pending));
        match result {
            AnyResult::Completed(found, outcome) => {
                finish_any(rt, Proc::MPI_Testany, (found, &outcome), index, status)
            }
            AnyResult::NoneActive => {
                index.write(UNDEFINED);
                put_status(status, EMPTY_STATUS);
                SUCCESS
            }
            AnyResult::Pending | AnyResult::OneByOne => {
                index.write(UNDEFINED);
                SUCCESS
            }
        }
    }
}

/// Completes one of the requests.
///
/// The first pending request is tested alone, since most programs wait for requests in the order in
/// which these complete. Afterwards one call of the library completes any request, if possible;
/// otherwise the requests are tested one by one. Waits only in the library: returns
/// [`AnyResult::Pending`] if the requests were tested one by one and none has completed.
///
/// # Safety
/// As [`RequestArrays::request`].
unsafe fn any_completed(
    rt: &Runtime,
    arrays: &RequestArrays,
    call: CompletionCall,
) -> Result<AnyResult, Rewound> {
    // SAFETY: the caller passes valid arrays.
    unsafe {
        let mut indices = 0..arrays.count;
        let first = indices.find(|&index| is_pending(rt, *arrays.request(index)));
        let Some(first) = first else {
            return Ok(AnyResult::NoneActive);
        };
        if let Some(outcome) = completion::poll(rt, arrays.request(first))? {
            return Ok(AnyResult::Completed(first, outcome));
        }
        match arrays.complete_any(rt, call)? {
            AnyResult::OneByOne => {}
            result => return Ok(result),
        }
        match first_completed(rt, arrays)? {
            (Some(found), _) => {
                let outcome = completion::wait(rt, arrays.request(found))?;
                Ok(AnyResult::Completed(found, outcome))
            }
            (None, true) => Ok(AnyResult::Pending),
            (None, false) => Ok(AnyResult::NoneActive),
        }
    }
}

/// Returns the results of a procedure that has completed one of many requests.
///
/// # Safety
/// MPI requires the program's arguments to be valid.
unsafe fn finish_any(
    rt: &Runtime,
    procedure: Proc,
    (found, completed): (usize, &RequestOutcome),
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the caller passes valid arguments.
    unsafe {
        index.write(found as c_int);
        put_status(status, completed.status);
    }
    finish(rt, procedure, completed.rc, completed.comm)
}
