//! Fast path for the completion of most requests.
//!
//! The library completes many requests in one call. The runtime only updates the table and the
//! counts of received messages.
#![allow(unsafe_code)]

use super::request::{MessageArguments, RequestState};
use super::request_entries::null_handle;
use super::request_table::{NULL, TableWithReals};
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtDatatype, VirtRequest, created_index, real_request};
use crate::objects::{comm, datatype};
use std::mem::MaybeUninit;
use understudy_mpi::real_types::{PROC_NULL, RealRequest, Status};

/// Returns index and real request of an active request that the library alone completes.
#[inline]
pub fn completable(rt: &Runtime, handle: VirtRequest) -> Option<(u32, RealRequest)> {
    let index = created_index(HandleKind::Request, handle.0)?;
    let table = rt.requests.table.borrow();
    let request = table.requests.get(index)?;
    let real = table.real_requests.get(index as usize)?;
    request.is_completed_by_library().then_some((index, *real))
}

/// Returns the real requests of `handles` if the fast path can complete all of them.
///
/// `None` if an active request needs more for its completion than a call of the library. Null
/// handles and inactive requests are permitted.
#[inline(always)]
pub fn all_completable<'a>(
    rt: &Runtime,
    handles: &[VirtRequest],
    buffer: &'a mut [MaybeUninit<RealRequest>],
) -> Option<&'a mut [RealRequest]> {
    let buffer = buffer.get_mut(..handles.len())?;
    let table = rt.requests.table.borrow();
    let mut slots = buffer.iter_mut();
    for &handle in handles {
        let real = match created_index(HandleKind::Request, handle.0) {
            Some(index) => {
                let request = table.requests.get(index)?;
                let real = *table.real_requests.get(index as usize)?;
                (request.is_completed_by_library()
                    || (request.state == RequestState::Inactive && real != NULL))
                    .then_some(real)?
            }
            None if handle == null_handle(rt) => real_request(rt, handle),
            None => return None,
        };
        slots.next()?.write(real);
    }
    // SAFETY: all elements have been written above.
    Some(unsafe { buffer.assume_init_mut() })
}

impl TableWithReals {
    /// Completes a request, and returns its datatype if the caller must release the datatype.
    ///
    /// Predefined datatypes need no release.
    #[inline(always)]
    fn complete(
        &mut self,
        rt: &Runtime,
        handle: &mut VirtRequest,
        status: &Status,
    ) -> Option<VirtDatatype> {
        let index = created_index(HandleKind::Request, handle.0)?;
        let sender = |message_arguments: &MessageArguments| match status.cancelled {
            // For MPI_Irecv from MPI_PROC_NULL, MPICH 4.0 reports rank 0 as the sender.
            0 if message_arguments.peer != PROC_NULL => {
                comm::worker_of(rt, message_arguments.comm(), status.source)
            }
            _ => None,
        };
        let datatype = self.requests.complete(index, sender)?;
        *handle = null_handle(rt);
        if !self.library_data.is_empty() {
            self.library_data.retain(|(owner, _)| *owner != index);
        }
        let datatype = datatype?;
        created_index(HandleKind::Datatype, datatype.0)
            .is_some()
            .then_some(datatype)
    }
}

/// Completes a request that was [`completable`], and counts a received message.
#[inline(always)]
pub fn complete_one(rt: &Runtime, handle: &mut VirtRequest, status: &Status) {
    let datatype = rt.requests.table.borrow_mut().complete(rt, handle, status);
    if let Some(datatype) = datatype {
        datatype::release(rt, datatype);
    }
}

/// Completes requests that were [`all_completable`]; inactive ones do not change.
#[inline(always)]
pub fn complete_all(rt: &Runtime, handles: &mut [VirtRequest], statuses: &[Status]) {
    let mut statuses = statuses.iter();
    for handle in handles {
        if let Some(status) = statuses.next() {
            complete_one(rt, handle, status);
        }
    }
}
