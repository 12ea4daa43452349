//! The short way to the end of most requests: the library is asked for many at once, and all of
//! them end together.
#![allow(unsafe_code)]

use super::record::{Envelope, State};
use super::request_entries::null_handle;
use super::request_table::{NULL, Table};
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtDatatype, VirtRequest, created, real_request};
use crate::objects::{comm, datatype};
use std::mem::MaybeUninit;
use understudy_mpi::real_types::{PROC_NULL, RealRequest, Status};

/// Index and real request of one that is under way, if there is a short way to its end.
#[inline]
pub fn alone(rt: &Runtime, handle: VirtRequest) -> Option<(u32, RealRequest)> {
    let index = created(HandleKind::Request, handle.0)?;
    let table = rt.requests.table.borrow();
    let request = table.requests.get(index)?;
    let real = table.reals.get(index as usize)?;
    request.is_alone().then_some((index, *real))
}

/// The real requests of as many, if there is a short way to the end of each. Null handles and
/// inactive requests are among them.
#[inline(always)]
pub fn each_alone<'a>(
    rt: &Runtime,
    handles: &[VirtRequest],
    room: &'a mut [MaybeUninit<RealRequest>],
) -> Option<&'a mut [RealRequest]> {
    let room = room.get_mut(..handles.len())?;
    let table = rt.requests.table.borrow();
    let mut places = room.iter_mut();
    for &handle in handles {
        let real = match created(HandleKind::Request, handle.0) {
            Some(index) => {
                let request = table.requests.get(index)?;
                let real = *table.reals.get(index as usize)?;
                (request.is_alone() || (request.state == State::Inactive && real != NULL))
                    .then_some(real)?
            }
            None if handle == null_handle(rt) => real_request(rt, handle),
            None => return None,
        };
        places.next()?.write(real);
    }
    // SAFETY: each has just been written.
    Some(unsafe { room.assume_init_mut() })
}

impl Table {
    /// Returns the datatype that was kept for it, if that is one that the program has made.
    #[inline(always)]
    fn end(
        &mut self,
        rt: &Runtime,
        handle: &mut VirtRequest,
        status: &Status,
    ) -> Option<VirtDatatype> {
        let index = created(HandleKind::Request, handle.0)?;
        let sender = |envelope: &Envelope| match status.cancelled {
            // MPICH 4.0 says of MPI_Irecv from MPI_PROC_NULL that the sender was rank 0.
            0 if envelope.peer != PROC_NULL => comm::worker_of(rt, envelope.comm(), status.source),
            _ => None,
        };
        let gone = self.requests.end(index, sender)?;
        *handle = null_handle(rt);
        if !self.kept.is_empty() {
            self.kept.retain(|(of, _)| *of != index);
        }
        let datatype = gone?;
        created(HandleKind::Datatype, datatype.0)
            .is_some()
            .then_some(datatype)
    }
}

/// A request that was [`alone`] has ended, and has been asked for: a message is counted as
/// received.
#[inline(always)]
pub fn end(rt: &Runtime, handle: &mut VirtRequest, status: &Status) {
    let datatype = rt.requests.table.borrow_mut().end(rt, handle, status);
    if let Some(datatype) = datatype {
        datatype::release(rt, datatype);
    }
}

/// The same for requests that were [`each_alone`]: whoever is inactive stays as it is.
#[inline(always)]
pub fn end_all(rt: &Runtime, handles: &mut [VirtRequest], statuses: &[Status]) {
    let mut statuses = statuses.iter();
    for handle in handles {
        if let Some(status) = statuses.next() {
            end(rt, handle, status);
        }
    }
}
