//! Waits, tests and other procedures for requests (MPI 4.1, 3.7 and 4.2).
//!
//! Fortran's indices of requests begin with one.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::mpi::*;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::c_int;

unsafe extern "C" {
    fn PMPI_Wait(request: *mut Handle, status: *mut Status) -> c_int;
    fn PMPI_Waitall(count: c_int, requests: *mut Handle, statuses: *mut Status) -> c_int;
    fn PMPI_Waitany(
        count: c_int,
        requests: *mut Handle,
        index: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    fn PMPI_Waitsome(
        incount: c_int,
        requests: *mut Handle,
        outcount: *mut c_int,
        indices: *mut c_int,
        statuses: *mut Status,
    ) -> c_int;
    fn PMPI_Test(request: *mut Handle, flag: *mut c_int, status: *mut Status) -> c_int;
    fn PMPI_Testall(
        count: c_int,
        requests: *mut Handle,
        flag: *mut c_int,
        statuses: *mut Status,
    ) -> c_int;
    fn PMPI_Testany(
        count: c_int,
        requests: *mut Handle,
        index: *mut c_int,
        flag: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    fn PMPI_Testsome(
        incount: c_int,
        requests: *mut Handle,
        outcount: *mut c_int,
        indices: *mut c_int,
        statuses: *mut Status,
    ) -> c_int;
    fn PMPI_Request_free(request: *mut Handle) -> c_int;
    fn PMPI_Parrived(request: Handle, partition: c_int, flag: *mut c_int) -> c_int;
}

/// The program's requests, in the form that the C bindings take.
struct Requests {
    /// The program's array of requests.
    numbers: *mut c_int,
    handles: Vec<Handle>,
    statuses: Vec<Status>,
}

impl Requests {
    /// Converts the program's requests to C.
    ///
    /// # Safety
    /// `numbers` must point to `count` requests.
    unsafe fn from_fortran(numbers: *mut c_int, count: c_int) -> Requests {
        let count = count.max(0) as usize;
        Requests {
            // SAFETY: the caller guarantees that `numbers` points to `count` requests.
            handles: (0..count)
                .map(|i| unsafe { PMPI_Request_f2c(*numbers.add(i)) })
                .collect(),
            statuses: vec![Status::default(); count],
            numbers,
        }
    }

    /// Stores the C procedure's request at this index in the program's array.
    fn put(&self, index: usize) {
        // SAFETY: the index is less than `count` of `from_fortran`, and the C procedure has set the
        // handle.
        unsafe { *self.numbers.add(index) = PMPI_Request_c2f(self.handles[index]) };
    }

    fn put_all(&self) {
        (0..self.handles.len()).for_each(|index| self.put(index));
    }
}

pub unsafe extern "C" fn wait(request: *mut c_int, status: *mut c_int, ierr: *mut c_int) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (mut handle, mut result) = (PMPI_Request_f2c(*request), Status::default());
        let rc = PMPI_Wait(&mut handle, &mut result);
        if rc == SUCCESS {
            *request = PMPI_Request_c2f(handle);
            put_status(status, &result);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn test(
    request: *mut c_int,
    flag: *mut c_int,
    status: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (mut handle, mut is_complete, mut result) =
            (PMPI_Request_f2c(*request), 0, Status::default());
        let rc = PMPI_Test(&mut handle, &mut is_complete, &mut result);
        put(flag, logical(is_complete != 0));
        if rc == SUCCESS && is_complete != 0 {
            *request = PMPI_Request_c2f(handle);
            put_status(status, &result);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn waitall(
    count: *const c_int,
    requests: *mut c_int,
    statuses: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let mut all = Requests::from_fortran(requests, *count);
        let rc = PMPI_Waitall(*count, all.handles.as_mut_ptr(), all.statuses.as_mut_ptr());
        if rc == SUCCESS || rc == ERR_IN_STATUS {
            all.put_all();
            put_statuses(statuses, &all.statuses);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn testall(
    count: *const c_int,
    requests: *mut c_int,
    flag: *mut c_int,
    statuses: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (mut all, mut is_complete) = (Requests::from_fortran(requests, *count), 0);
        let rc = PMPI_Testall(
            *count,
            all.handles.as_mut_ptr(),
            &mut is_complete,
            all.statuses.as_mut_ptr(),
        );
        put(flag, logical(is_complete != 0));
        if rc == ERR_IN_STATUS || rc == SUCCESS && is_complete != 0 {
            all.put_all();
            put_statuses(statuses, &all.statuses);
        }
        put(ierr, rc);
    }
}

/// Stores the completed request and its index; `MPI_UNDEFINED` if no request is complete.
fn put_one(all: &Requests, c_index: c_int, index: *mut c_int) {
    match usize::try_from(c_index) {
        Ok(completed) => {
            all.put(completed);
            put(index, c_index + 1);
        }
        Err(_) => put(index, c_index),
    }
}

pub unsafe extern "C" fn waitany(
    count: *const c_int,
    requests: *mut c_int,
    index: *mut c_int,
    status: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (mut all, mut c_index, mut result) = (
            Requests::from_fortran(requests, *count),
            UNDEFINED,
            Status::default(),
        );
        let rc = PMPI_Waitany(*count, all.handles.as_mut_ptr(), &mut c_index, &mut result);
        if rc == SUCCESS {
            put_one(&all, c_index, index);
            put_status(status, &result);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn testany(
    count: *const c_int,
    requests: *mut c_int,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (mut all, mut c_index, mut is_complete, mut result) = (
            Requests::from_fortran(requests, *count),
            UNDEFINED,
            0,
            Status::default(),
        );
        let rc = PMPI_Testany(
            *count,
            all.handles.as_mut_ptr(),
            &mut c_index,
            &mut is_complete,
            &mut result,
        );
        put(flag, logical(is_complete != 0));
        if rc == SUCCESS {
            let completed = if is_complete != 0 { c_index } else { UNDEFINED };
            put_one(&all, completed, index);
            put_status(status, &result);
        }
        put(ierr, rc);
    }
}

/// C procedure `MPI_Waitsome` or `MPI_Testsome`.
type SomeProcedure =
    unsafe extern "C" fn(c_int, *mut Handle, *mut c_int, *mut c_int, *mut Status) -> c_int;

/// Implements `MPI_WAITSOME` and `MPI_TESTSOME`.
///
/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn wait_or_test_some(
    procedure: SomeProcedure,
    incount: *const c_int,
    requests: *mut c_int,
    [outcount, indices, statuses, ierr]: [*mut c_int; 4],
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (mut all, mut completed) = (Requests::from_fortran(requests, *incount), UNDEFINED);
        let rc = procedure(
            *incount,
            all.handles.as_mut_ptr(),
            &mut completed,
            indices,
            all.statuses.as_mut_ptr(),
        );
        if rc == SUCCESS || rc == ERR_IN_STATUS {
            put(outcount, completed);
            let completed = completed.max(0) as usize;
            for index in (0..completed).map(|i| indices.add(i)) {
                all.put(*index as usize);
                *index += 1;
            }
            put_statuses(statuses, &all.statuses[..completed]);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn waitsome(
    incount: *const c_int,
    requests: *mut c_int,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        wait_or_test_some(
            PMPI_Waitsome,
            incount,
            requests,
            [outcount, indices, statuses, ierr],
        )
    }
}

pub unsafe extern "C" fn testsome(
    incount: *const c_int,
    requests: *mut c_int,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        wait_or_test_some(
            PMPI_Testsome,
            incount,
            requests,
            [outcount, indices, statuses, ierr],
        )
    }
}

pub unsafe extern "C" fn request_free(request: *mut c_int, ierr: *mut c_int) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let mut handle = PMPI_Request_f2c(*request);
        let rc = PMPI_Request_free(&mut handle);
        if rc == SUCCESS {
            *request = PMPI_Request_c2f(handle);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn parrived(
    request: *const c_int,
    partition: *const c_int,
    flag: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let mut arrived = 0;
        let rc = PMPI_Parrived(PMPI_Request_f2c(*request), *partition, &mut arrived);
        put(flag, logical(arrived != 0));
        put(ierr, rc);
    }
}
