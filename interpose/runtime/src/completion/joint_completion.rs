//! Completion of many requests in one call of the library.
#![allow(unsafe_code)]

use super::{record_completion, report_completion};
use crate::arch::{self, Rewound};
use crate::errors::{ERR_IN_STATUS, ERR_OTHER, ERR_PENDING, SUCCESS};
use crate::generated::real;
use crate::handles::VirtRequest;
use crate::requests::{self, index, is_active};
use crate::{Runtime, copies, recovery};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use understudy_mpi::real_types::{RealRequest, Status};

/// Largest number of requests in one call of the library.
pub const MAX_TOGETHER: usize = 64;

/// Library call for many requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CompletionCall {
    /// Test if all have completed.
    Test,
    /// Wait until all have completed.
    Wait,
}

/// Result of a call for many requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ManyResult {
    /// All have completed, and the statuses are written.
    Ended,
    /// At least one has not completed; nothing has changed.
    Pending,
    /// The requests must be tested one by one.
    OneByOne,
}

/// Completes at most [`MAX_TOGETHER`] requests in one call of the library.
///
/// Returns [`ManyResult::OneByOne`] in two cases: if the fast path cannot complete all requests,
/// and if some requests have failed. In the second case the outcomes of completed requests are
/// recorded.
///
/// # Safety
/// `statuses` must be null or have room for as many statuses as there are handles.
pub unsafe fn complete_together(
    rt: &Runtime,
    handles: &mut [VirtRequest],
    statuses: *mut Status,
    call: CompletionCall,
) -> Result<ManyResult, Rewound> {
    if copies::is_pending() {
        return Ok(ManyResult::OneByOne);
    }
    let mut buffer = [const { MaybeUninit::uninit() }; MAX_TOGETHER];
    let Some(reals) = requests::all_completable(rt, handles, &mut buffer) else {
        return Ok(ManyResult::OneByOne);
    };
    let mut ignored = [const { MaybeUninit::<Status>::uninit() }; MAX_TOGETHER];
    let destination = if statuses.is_null() {
        ignored.as_mut_ptr().cast()
    } else {
        statuses
    };
    let (count, mut flag) = (reals.len() as c_int, 1);
    // SAFETY: real requests, which do not move, and room for their statuses.
    let rc = unsafe {
        match call {
            CompletionCall::Test => {
                real::PMPI_Testall(count, reals.as_mut_ptr(), &mut flag, destination)
            }
            CompletionCall::Wait => {
                arch::mark_blocking_wait();
                real::PMPI_Waitall(count, reals.as_mut_ptr(), destination)
            }
        }
    };
    if rc == SUCCESS && flag == 0 {
        return Ok(ManyResult::Pending);
    }
    if rc != SUCCESS && rc != ERR_IN_STATUS {
        recovery::check(rt, rc)?;
        return Ok(ManyResult::OneByOne);
    }
    // SAFETY: the library has written as many statuses as there are requests.
    let statuses = unsafe { std::slice::from_raw_parts(destination, reals.len()) };
    if rc == ERR_IN_STATUS {
        record_outcomes(rt, handles, reals, statuses)?;
        return Ok(ManyResult::OneByOne);
    }
    let is_cancelled = |status| requests::is_cancelled_by_library(rt, status);
    if statuses.iter().any(is_cancelled) {
        recovery::check(rt, ERR_OTHER)?;
    }
    if arch::is_recording() {
        let indices = handles.iter().map(|&handle| index(rt, handle));
        indices.zip(statuses).for_each(|(index, status)| {
            index
                .into_iter()
                .for_each(|index| report_completion(rt, index, status))
        });
    }
    requests::complete_all(rt, handles, statuses);
    Ok(ManyResult::Ended)
}

/// Records the outcome of each request after some have failed.
///
/// Other requests may still be active.
#[cold]
#[inline(never)]
fn record_outcomes(
    rt: &Runtime,
    handles: &[VirtRequest],
    reals: &[RealRequest],
    statuses: &[Status],
) -> Result<(), Rewound> {
    for ((&handle, &real), &status) in handles.iter().zip(reals).zip(statuses) {
        // The library may store internal codes here.
        let rc = if status.error < SUCCESS {
            ERR_OTHER
        } else {
            status.error
        };
        if let Some(index) =
            index(rt, handle).filter(|&index| is_active(rt, index) && rc != ERR_PENDING)
        {
            recovery::check(rt, rc)?;
            requests::set_real(rt, index, real);
            record_completion(rt, index, status, rc);
        }
    }
    Ok(())
}
