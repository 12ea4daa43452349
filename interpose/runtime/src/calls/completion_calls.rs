//! Completion (MPI 4.1, section 3.7): wait, test and their plural forms.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

mod arrays;

use super::arguments::{outcome, put_status};
use crate::Runtime;
use crate::arch::Rewound;
use crate::calls::runtime;
use crate::completion::{self, CompletionCall, MAX_TOGETHER, ManyResult};
use crate::error_handling::{finish, handle_error};
use crate::errors::{ERR_IN_STATUS, ERR_REQUEST, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtRequest};
use crate::requests::{self, EMPTY_STATUS, RequestOutcome};
use crate::{checkpoint, cut, work_flags};
use arrays::RequestArrays;
use std::ffi::c_int;
use std::ops::Range;
use understudy_mpi::real_types::{Status, UNDEFINED};

pub unsafe extern "C" fn MPI_Wait(request: *mut VirtRequest, status: *mut Status) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        outcome!(cut::here(rt));
        let completed = outcome!(completion::wait_with(rt, &mut *request, || cut::meanwhile(
            rt
        )));
        put_status(status, completed.status);
        finish(rt, Proc::MPI_Wait, completed.rc, completed.comm)
    }
}

pub unsafe extern "C" fn MPI_Test(
    request: *mut VirtRequest,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        outcome!(cut::here(rt));
        let completed = outcome!(completion::poll(rt, &mut *request));
        flag.write(c_int::from(completed.is_some()));
        let Some(completed) = completed else {
            return SUCCESS;
        };
        put_status(status, completed.status);
        finish(rt, Proc::MPI_Test, completed.rc, completed.comm)
    }
}

pub unsafe extern "C" fn MPI_Request_get_status(
    request: VirtRequest,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        outcome!(cut::here(rt));
        let completed = outcome!(completion::peek(rt, request));
        flag.write(c_int::from(completed.is_some()));
        if let Some(completed) = completed {
            put_status(status, completed.status);
        }
    }
    SUCCESS
}

/// Error code of the first request of many that has failed, and its communicator.
///
/// The error is passed to the communicator's error handler.
type FirstFailure = Option<(c_int, Option<VirtComm>)>;

fn failure(completed: &RequestOutcome) -> FirstFailure {
    (completed.rc != SUCCESS).then_some((completed.rc, completed.comm))
}

/// Completes a procedure with many statuses.
fn finish_many(rt: &Runtime, procedure: Proc, failed: FirstFailure) -> c_int {
    match failed {
        None => SUCCESS,
        Some((rc, comm)) => {
            // See `error_handling::handlers_clear_errors`.
            match handle_error(rt, procedure, rc, comm) {
                SUCCESS => SUCCESS,
                _ => ERR_IN_STATUS,
            }
        }
    }
}

fn is_pending(rt: &Runtime, handle: VirtRequest) -> bool {
    requests::index(rt, handle).is_some_and(|index| !requests::is_inactive(rt, index))
}

/// Waits for these requests one by one; returns the first failure.
///
/// # Safety
/// As [`RequestArrays::request`].
#[inline(never)]
unsafe fn wait_for_each(
    rt: &Runtime,
    arrays: &RequestArrays,
    which: Range<usize>,
) -> Result<FirstFailure, Rewound> {
    let mut failed = None;
    for index in which {
        // SAFETY: the caller passes valid arrays, and a range inside of them.
        unsafe {
            let completed = completion::wait(rt, arrays.request(index))?;
            failed = failed.or(failure(&completed));
            arrays.put(index, &completed);
        }
    }
    Ok(failed)
}

/// Waits until all these requests have completed, without releasing any of them.
///
/// The program's arrays stay unchanged, so the call can be repeated from a cut in this wait.
///
/// # Safety
/// As [`RequestArrays::request`].
#[cold]
#[inline(never)]
unsafe fn wait_without_release(rt: &Runtime, arrays: &RequestArrays) -> Result<(), Rewound> {
    cut::here(rt)?;
    for index in 0..arrays.count {
        // SAFETY: the caller passes valid arrays of `count` elements.
        while !completion::is_complete(rt, unsafe { *arrays.request(index) })? {
            cut::meanwhile(rt)?;
        }
    }
    Ok(())
}

pub unsafe extern "C" fn MPI_Waitall(
    count: c_int,
    array_of_requests: *mut VirtRequest,
    array_of_statuses: *mut Status,
) -> c_int {
    let rt = runtime();
    let arrays = RequestArrays::new(count, array_of_requests, array_of_statuses);
    if work_flags::is_any_set() {
        // SAFETY: MPI requires the program's arrays to have `count` elements.
        outcome!(unsafe { wait_without_release(rt, &arrays) });
    }
    let mut failed = None;
    for first in (0..arrays.count).step_by(MAX_TOGETHER) {
        let count = MAX_TOGETHER.min(arrays.count - first);
        // SAFETY: MPI requires the program's arrays to have `count` elements.
        unsafe {
            if outcome!(arrays.complete_together(rt, first, count, CompletionCall::Wait))
                != ManyResult::Ended
            {
                failed = failed.or(outcome!(wait_for_each(rt, &arrays, first..first + count)));
            }
        }
    }
    finish_many(rt, Proc::MPI_Waitall, failed)
}

/// `MPI_Testall`: completes no request unless all can be completed.
pub unsafe extern "C" fn MPI_Testall(
    count: c_int,
    array_of_requests: *mut VirtRequest,
    flag: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    let rt = runtime();
    let arrays = RequestArrays::new(count, array_of_requests, array_of_statuses);
    outcome!(cut::here(rt));
    // SAFETY: MPI requires the program's arrays to have `count` elements.
    unsafe {
        if arrays.count <= MAX_TOGETHER {
            let answer =
                outcome!(arrays.complete_together(rt, 0, arrays.count, CompletionCall::Test));
            if answer != ManyResult::OneByOne {
                flag.write(c_int::from(answer == ManyResult::Ended));
                return SUCCESS;
            }
        }
        for index in 0..arrays.count {
            if !outcome!(completion::is_complete(rt, *arrays.request(index))) {
                outcome!(checkpoint::poll(rt));
                flag.write(0);
                return SUCCESS;
            }
        }
        let errors = arrays.errors();
        let failed = outcome!(wait_for_each(rt, &arrays, 0..arrays.count));
        if failed.is_none() {
            arrays.restore_errors(&errors, arrays.count);
        }
        flag.write(1);
        finish_many(rt, Proc::MPI_Testall, failed)
    }
}

pub unsafe extern "C" fn MPI_Request_get_status_all(
    count: c_int,
    array_of_requests: *const VirtRequest,
    flag: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let arrays = RequestArrays::new(count, array_of_requests.cast_mut(), array_of_statuses);
    // SAFETY: MPI requires the program's arrays to have `count` elements, and a valid `flag`.
    unsafe {
        let peeked = (0..arrays.count).map(|index| completion::peek(rt, *arrays.request(index)));
        let peeked: Vec<Option<RequestOutcome>> = outcome!(peeked.collect());
        let all: Option<Vec<RequestOutcome>> = peeked.into_iter().collect();
        flag.write(c_int::from(all.is_some()));
        for (index, completed) in all.iter().flatten().enumerate() {
            arrays.put(index, completed);
        }
    }
    outcome!(checkpoint::poll(rt));
    SUCCESS
}

pub unsafe extern "C" fn MPI_Request_get_status_any(
    count: c_int,
    array_of_requests: *const VirtRequest,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let arrays = RequestArrays::new(count, array_of_requests.cast_mut(), std::ptr::null_mut());
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        let (found, pending) = outcome!(first_completed(rt, &arrays));
        flag.write(c_int::from(found.is_some() || !pending));
        index.write(found.map_or(UNDEFINED, |found| found as c_int));
        match found {
            Some(found) => {
                let completed = outcome!(completion::peek(rt, *arrays.request(found)));
                completed
                    .into_iter()
                    .for_each(|completed| put_status(status, completed.status));
            }
            None if !pending => put_status(status, EMPTY_STATUS),
            None => (),
        }
    }
    SUCCESS
}

/// Tests each pending request once; returns the first that has completed.
///
/// The second result is true if any request was pending.
unsafe fn first_completed(
    rt: &Runtime,
    arrays: &RequestArrays,
) -> Result<(Option<usize>, bool), Rewound> {
    let mut pending = false;
    for index in 0..arrays.count {
        // SAFETY: MPI requires the program's array to have `count` elements.
        let handle = unsafe { *arrays.request(index) };
        if is_pending(rt, handle) {
            pending = true;
            if completion::is_complete(rt, handle)? {
                return Ok((Some(index), true));
            }
        }
    }
    checkpoint::poll(rt)?;
    Ok((None, pending))
}

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
            match outcome!(first_completed(rt, &arrays)) {
                (Some(found), _) => {
                    return complete(rt, Proc::MPI_Waitany, &arrays, found, index, status);
                }
                (None, true) => outcome!(cut::meanwhile(rt)),
                (None, false) => {
                    index.write(UNDEFINED);
                    put_status(status, EMPTY_STATUS);
                    return SUCCESS;
                }
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
        let (found, pending) = outcome!(first_completed(rt, &arrays));
        flag.write(c_int::from(found.is_some() || !pending));
        match found {
            Some(found) => complete(rt, Proc::MPI_Testany, &arrays, found, index, status),
            None => {
                index.write(UNDEFINED);
                if !pending {
                    put_status(status, EMPTY_STATUS);
                }
                SUCCESS
            }
        }
    }
}

unsafe fn complete(
    rt: &Runtime,
    procedure: Proc,
    arrays: &RequestArrays,
    found: usize,
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: MPI requires the arguments to be valid; `found` is an index of the array.
    unsafe {
        let completed = outcome!(completion::wait(rt, arrays.request(found)));
        index.write(found as c_int);
        put_status(status, completed.status);
        finish(rt, procedure, completed.rc, completed.comm)
    }
}

/// Treatment of requests that have completed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CompletedRequests {
    /// The requests are released (`MPI_Waitsome`, `MPI_Testsome`).
    Released,
    /// The requests stay (`MPI_Request_get_status_some`).
    Kept,
}

/// Completes or reports all requests that have completed; `None` if none is pending.
unsafe fn complete_or_report(
    rt: &Runtime,
    arrays: &RequestArrays,
    how: CompletedRequests,
    outcount: *mut c_int,
    indices: *mut c_int,
) -> Result<Option<(usize, FirstFailure)>, Rewound> {
    let (mut pending, mut completed, mut failed) = (false, 0, None);
    // SAFETY: MPI requires the program's arrays to have `count` elements.
    let errors = unsafe { arrays.errors() };
    for index in 0..arrays.count {
        // SAFETY: MPI requires the program's arrays to have `count` elements.
        unsafe {
            let handle = arrays.request(index);
            if !is_pending(rt, *handle) {
                continue;
            }
            pending = true;
            let outcome = match how {
                CompletedRequests::Kept => completion::peek(rt, *handle)?,
                CompletedRequests::Released if !completion::is_complete(rt, *handle)? => None,
                CompletedRequests::Released => Some(completion::wait(rt, handle)?),
            };
            if let Some(outcome) = outcome {
                failed = failed.or(failure(&outcome));
                indices.add(completed).write(index as c_int);
                arrays.put(completed, &outcome);
                completed += 1;
            }
        }
    }
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        if failed.is_none() && how == CompletedRequests::Released {
            arrays.restore_errors(&errors, completed);
        }
        outcount.write(if pending {
            completed as c_int
        } else {
            UNDEFINED
        });
    }
    checkpoint::poll(rt)?;
    Ok(pending.then_some((completed, failed)))
}

pub unsafe extern "C" fn MPI_Waitsome(
    incount: c_int,
    array_of_requests: *mut VirtRequest,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let arrays = RequestArrays::new(incount, array_of_requests, array_of_statuses);
    loop {
        // SAFETY: MPI requires the program's arguments to be valid.
        match outcome!(unsafe {
            complete_or_report(
                rt,
                &arrays,
                CompletedRequests::Released,
                outcount,
                array_of_indices,
            )
        }) {
            Some((0, _)) => outcome!(cut::meanwhile(rt)),
            Some((_, failed)) => return finish_many(rt, Proc::MPI_Waitsome, failed),
            None => return SUCCESS,
        }
    }
}

pub unsafe extern "C" fn MPI_Testsome(
    incount: c_int,
    array_of_requests: *mut VirtRequest,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let arrays = RequestArrays::new(incount, array_of_requests, array_of_statuses);
    // SAFETY: MPI requires the program's arguments to be valid.
    match outcome!(unsafe {
        complete_or_report(
            rt,
            &arrays,
            CompletedRequests::Released,
            outcount,
            array_of_indices,
        )
    }) {
        Some((_, failed)) => finish_many(rt, Proc::MPI_Testsome, failed),
        None => SUCCESS,
    }
}

pub unsafe extern "C" fn MPI_Request_get_status_some(
    incount: c_int,
    array_of_requests: *const VirtRequest,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let arrays = RequestArrays::new(incount, array_of_requests.cast_mut(), array_of_statuses);
    // SAFETY: MPI requires the arguments to be valid. The errors are in the statuses. The call that
    // completes a request reports its error.
    outcome!(unsafe {
        complete_or_report(
            rt,
            &arrays,
            CompletedRequests::Kept,
            outcount,
            array_of_indices,
        )
    });
    SUCCESS
}

pub unsafe extern "C" fn MPI_Cancel(request: *mut VirtRequest) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    let Some(index) = requests::index(rt, unsafe { *request }) else {
        return finish(rt, Proc::MPI_Cancel, ERR_REQUEST, None);
    };
    if requests::is_active(rt, index) || requests::general(rt, index).is_some() {
        return finish(
            rt,
            Proc::MPI_Cancel,
            outcome!(completion::cancel(rt, index)),
            None,
        );
    }
    SUCCESS
}
