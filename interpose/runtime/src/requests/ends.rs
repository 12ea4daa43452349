//! The short way to the end of most requests: the library is asked for many at once, and all of them end together.
#![allow(unsafe_code)]

use super::{Kind, NULL, Request, State, Table, null_handle};
use crate::generated::HandleKind;
use crate::handles::{VirtDatatype, VirtRequest, created, real_request};
use crate::objects::comm;
use crate::objects::datatype;
use crate::requests::Runtime;
use std::mem::MaybeUninit;
use understudy_mpi::real_types::{RealRequest, Status};

/// Whether only the library needs to be asked for it.
#[inline]
fn is_alone(request: &Request) -> bool {
    request.state == State::Active && request.other.is_none()
}

/// Index and real request of one that is under way, if there is a short way to its end.
#[inline]
pub fn alone(rt: &Runtime, handle: VirtRequest) -> Option<(u32, RealRequest)> {
    let index = created(HandleKind::Request, handle.0)?;
    let table = rt.table.borrow();
    let request = table.requests.get(index)?;
    let real = table.reals.get(index as usize)?;
    is_alone(request).then_some((index, *real))
}

/// The real requests of as many, if there is a short way to the end of each. Null handles and inactive requests are among them.
#[inline]
pub fn each_alone<'a>(
    rt: &Runtime,
    handles: &[VirtRequest],
    room: &'a mut [MaybeUninit<RealRequest>],
) -> Option<&'a mut [RealRequest]> {
    let table = rt.table.borrow();
    let null = null_handle(rt);
    let mut reals = room.iter_mut();
    for &handle in handles {
        let real = match created(HandleKind::Request, handle.0) {
            Some(index) => {
                let request = table.requests.get(index)?;
                let real = *table.reals.get(index as usize)?;
                (is_alone(request) || (request.state == State::Inactive && real != NULL)).then_some(real)?
            }
            None if handle == null => real_request(rt, null),
            None => return None,
        };
        reals.next()?.write(real);
    }
    let left = reals.len();
    let filled = room.len() - left;
    // SAFETY: so many have just been written.
    Some(unsafe { room[..filled].assume_init_mut() })
}

impl Table {
    /// Returns the datatype that was kept for it, if that is one that the program has made.
    #[inline(always)]
    fn end(&mut self, rt: &Runtime, handle: &mut VirtRequest, status: &Status) -> Option<VirtDatatype> {
        let index = created(HandleKind::Request, handle.0)?;
        let request = self.requests.get(index).filter(|request| is_alone(request))?;
        let mut datatype = None;
        if let Kind::Receive(envelope) | Kind::PersistentReceive(envelope) = &request.kind {
            datatype = Some(envelope.datatype());
            if status.cancelled == 0 {
                let worker = comm::worker_of(rt, envelope.comm(), status.source);
                self.requests.count_received(worker);
            }
        }
        if self.requests.end(index) {
            return None;
        }
        *handle = null_handle(rt);
        if !self.kept.is_empty() {
            self.kept.retain(|(of, _)| *of != index);
        }
        datatype.filter(|datatype| created(HandleKind::Datatype, datatype.0).is_some())
    }
}

/// A request that was [`alone`] has ended, and has been asked for: a message is counted as received.
#[inline]
pub fn end(rt: &Runtime, handle: &mut VirtRequest, status: &Status) {
    let datatype = rt.table.borrow_mut().end(rt, handle, status);
    datatype.into_iter().for_each(|it| datatype::release(rt, it));
}

/// The same for requests that were [`each_alone`]: whoever is inactive stays as it is.
#[inline]
pub fn end_all(rt: &Runtime, handles: &mut [VirtRequest], statuses: &[Status]) {
    let mut table = rt.table.borrow_mut();
    let mut datatypes = Vec::new();
    for (handle, status) in handles.iter_mut().zip(statuses) {
        datatypes.extend(table.end(rt, handle, status));
    }
    drop(table);
    datatypes.into_iter().for_each(|it| datatype::release(rt, it));
}
