//! Table of requests with the real requests beside them, and this module's runtime.

use super::attached_buffer::Attached;
use super::order::Requests;
use super::record::{Kind, State};
use crate::cell::{Field, runtime};
use crate::generated::HandleKind;
use crate::handles::{self, VirtComm, VirtRequest};
use crate::objects;
use std::any::Any;
use std::cell::{Cell, Ref, RefMut};
use understudy_mpi::real_types::RealRequest;

runtime! {
    pub struct Runtime: objects::Runtime {
        /// All requests of the program.
        pub(super) table: Field<Table> = Field::new(Table {
            requests: Requests::NONE,
            reals: Vec::new(),
            kept: Vec::new(),
            unready: Vec::new(),
        }),
        /// Number of requests that may be freed before all freed ones are tested.
        pub(super) until_reaped: Cell<u32> = Cell::new(0),
        /// The program's buffers for buffered sends.
        pub(super) attached: Field<Vec<Attached>> = Field::new(Vec::new()),
    }
}

pub(super) struct Table {
    pub(super) requests: Requests,
    pub(super) reals: Vec<RealRequest>,
    /// Values that the real library uses until the request with this index has ended.
    pub(super) kept: Vec<(u32, Box<dyn Any + Send>)>,
    /// Numbers of partitions that are not ready, of started partitioned sends.
    pub(super) unready: Vec<(u32, u64)>,
}

pub(super) const NULL: RealRequest = RealRequest(std::ptr::null_mut());

/// The requests of this process.
#[inline]
#[track_caller]
pub fn table(rt: &Runtime) -> Ref<'_, Requests> {
    Ref::map(rt.table.borrow(), |table| &table.requests)
}

/// Borrows the requests of this process to change them.
#[inline]
#[track_caller]
pub fn table_mut(rt: &Runtime) -> RefMut<'_, Requests> {
    RefMut::map(rt.table.borrow_mut(), |table| &mut table.requests)
}

impl Table {
    /// Adds a request, built in place to avoid a store-forwarding stall.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        comm: VirtComm,
        kind: Kind,
        state: State,
        real: RealRequest,
    ) -> VirtRequest {
        let index = self.requests.insert(comm.0 as u64, kind, state);
        match self.reals.get_mut(index as usize) {
            Some(place) => *place = real,
            None => self.reals.push(real),
        }
        VirtRequest(handles::virtual_handle(HandleKind::Request, index))
    }
}
