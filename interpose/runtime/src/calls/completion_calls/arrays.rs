//! Arrays of procedures with many requests.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::abi::is_foreign_abi;
use crate::arch::Rewound;
use crate::completion::{self, CompletionCall, ManyResult};
use crate::handles::VirtRequest;
use crate::requests::RequestOutcome;
use std::ffi::c_int;
use understudy_mpi::real_types::Status;

/// Arrays of requests and statuses of the program.
pub struct RequestArrays {
    requests: *mut VirtRequest,
    statuses: *mut Status,
    pub count: usize,
}

impl RequestArrays {
    /// Returns arrays of `count` elements.
    pub fn new(count: c_int, requests: *mut VirtRequest, statuses: *mut Status) -> RequestArrays {
        RequestArrays {
            requests,
            statuses,
            count: count.max(0) as usize,
        }
    }

    /// Returns one of the requests.
    ///
    /// # Safety
    /// The arrays must be valid and `index` below their length.
    #[allow(clippy::mut_from_ref)] // The array is the program's memory.
    pub unsafe fn request(&self, index: usize) -> &mut VirtRequest {
        // SAFETY: the caller passes an index below the length of the program's array.
        unsafe { &mut *self.requests.add(index) }
    }

    /// Completes or tests `count` requests from index `first` on in one library call, if possible.
    ///
    /// # Safety
    /// As [`RequestArrays::request`]; the arrays must have this number of elements from `first` on.
    pub unsafe fn complete_together(
        &self,
        rt: &Runtime,
        first: usize,
        count: usize,
        how: CompletionCall,
    ) -> Result<ManyResult, Rewound> {
        if count == 0 {
            return Ok(ManyResult::Ended);
        }
        // SAFETY: the caller guarantees `count` elements from index `first` on.
        unsafe {
            let statuses = if self.statuses.is_null() {
                self.statuses
            } else {
                self.statuses.add(first)
            };
            let requests = std::slice::from_raw_parts_mut(self.requests.add(first), count);
            completion::complete_together(rt, requests, statuses, how)
        }
    }

    /// Returns the error fields of the statuses before the call.
    ///
    /// Empty with Open MPI, which always writes the error fields. MPICH leaves them unchanged if no
    /// request has failed, except in MPI_Waitall.
    ///
    /// # Safety
    /// As [`RequestArrays::request`].
    pub unsafe fn errors(&self) -> Vec<c_int> {
        if self.statuses.is_null() || !is_foreign_abi() {
            return Vec::new();
        }
        // SAFETY: the caller guarantees an array of `count` statuses; null is excluded above.
        (0..self.count)
            .map(|index| unsafe { (*self.statuses.add(index)).error })
            .collect()
    }

    /// Restores the first `count` error fields.
    ///
    /// # Safety
    /// As [`RequestArrays::request`].
    pub unsafe fn restore_errors(&self, errors: &[c_int], count: usize) {
        for (index, &error) in errors.iter().enumerate().take(count) {
            // SAFETY: `index` is below `count`, which does not exceed the number of statuses.
            unsafe { (*self.statuses.add(index)).error = error };
        }
    }

    /// Writes a status, unless the program ignores statuses.
    ///
    /// # Safety
    /// As [`RequestArrays::request`].
    pub unsafe fn put(&self, index: usize, outcome: &RequestOutcome) {
        if !self.statuses.is_null() {
            // SAFETY: `index` is below the number of statuses, and the array is not null.
            unsafe {
                self.statuses.add(index).write(Status {
                    error: outcome.rc,
                    ..outcome.status
                })
            };
        }
    }
}
