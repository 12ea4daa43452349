//! The arrays of procedures with many requests.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::abi::is_foreign;
use crate::arch::Rewound;
use crate::completion::{self, How, Together};
use crate::handles::VirtRequest;
use crate::requests::Outcome;
use std::ffi::c_int;
use understudy_mpi::real_types::Status;

/// The program's arrays of requests and statuses.
pub struct Arrays {
    requests: *mut VirtRequest,
    statuses: *mut Status,
    pub count: usize,
}

impl Arrays {
    /// Of so many elements.
    pub fn new(count: c_int, requests: *mut VirtRequest, statuses: *mut Status) -> Arrays {
        Arrays {
            requests,
            statuses,
            count: count.max(0) as usize,
        }
    }

    /// One of the requests.
    ///
    /// # Safety
    /// The arrays must be valid and `index` below their length.
    #[allow(clippy::mut_from_ref)] // The array is the program's, not ours.
    pub unsafe fn request(&self, index: usize) -> &mut VirtRequest {
        // SAFETY: handed on to the caller.
        unsafe { &mut *self.requests.add(index) }
    }

    /// Asks the library for `count` requests from the one with this index on, together if there is
    /// a short way.
    ///
    /// # Safety
    /// As [`Arrays::request`]; so many must follow.
    pub unsafe fn end_together(
        &self,
        rt: &Runtime,
        first: usize,
        count: usize,
        how: How,
    ) -> Result<Together, Rewound> {
        if count == 0 {
            return Ok(Together::Ended);
        }
        // SAFETY: handed on to the caller.
        unsafe {
            let statuses = if self.statuses.is_null() {
                self.statuses
            } else {
                self.statuses.add(first)
            };
            let requests = std::slice::from_raw_parts_mut(self.requests.add(first), count);
            completion::end_together(rt, requests, statuses, how)
        }
    }

    /// The error fields of the statuses before the call, if the library is one that leaves them as
    /// they are where nothing has failed. (Open MPI writes them, and all do in MPI_Waitall.)
    ///
    /// # Safety
    /// As [`Arrays::request`].
    pub unsafe fn errors(&self) -> Vec<c_int> {
        if self.statuses.is_null() || !is_foreign() {
            return Vec::new();
        }
        // SAFETY: handed on to the caller.
        (0..self.count)
            .map(|index| unsafe { (*self.statuses.add(index)).error })
            .collect()
    }

    /// Puts so many of them back.
    ///
    /// # Safety
    /// As [`Arrays::request`].
    pub unsafe fn put_errors(&self, errors: &[c_int], many: usize) {
        for (index, &error) in errors.iter().enumerate().take(many) {
            // SAFETY: handed on to the caller.
            unsafe { (*self.statuses.add(index)).error = error };
        }
    }

    /// Writes a status, unless the program ignores them.
    ///
    /// # Safety
    /// As [`Arrays::request`].
    pub unsafe fn put(&self, index: usize, outcome: &Outcome) {
        if !self.statuses.is_null() {
            // SAFETY: handed on to the caller.
            unsafe {
                self.statuses.add(index).write(Status {
                    error: outcome.rc,
                    ..outcome.status
                })
            };
        }
    }
}
