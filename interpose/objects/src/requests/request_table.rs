//! Table of requests, with their real requests.

use super::attached_buffer::Attached;
use super::order::Requests;
use super::record::{Kind, State};
use crate::cell::Field;
use crate::generated::HandleKind;
use crate::handles::{self, VirtComm, VirtRequest};
use std::any::Any;
use std::cell::Cell;
use understudy_mpi::real_types::RealRequest;

/// Requests of this process, and buffers for buffered sends.
pub struct RequestTable {
    /// All requests of the program.
    pub(super) table: Field<Table>,
    /// Number of requests that may be freed before all freed ones are tested.
    pub(super) until_reaped: Cell<u32>,
    /// The program's buffers for buffered sends.
    pub(super) attached: Field<Vec<Attached>>,
}

impl RequestTable {
    /// Returns the state at the start of the process.
    pub const fn start() -> RequestTable {
        RequestTable {
            table: Field::new(Table {
                requests: Requests::NONE,
                reals: Vec::new(),
                kept: Vec::new(),
                unready: Vec::new(),
            }),
            until_reaped: Cell::new(0),
            attached: Field::new(Vec::new()),
        }
    }
}

/// Requests, with their real requests and kept values.
pub(super) struct Table {
    pub(super) requests: Requests,
    pub(super) reals: Vec<RealRequest>,
    /// Values that the real library uses until the request with this index is complete.
    pub(super) kept: Vec<(u32, Box<dyn Any + Send>)>,
    /// Number of partitions that are not ready, by index of the started partitioned send.
    pub(super) unready: Vec<(u32, u64)>,
}

pub(super) const NULL: RealRequest = RealRequest(std::ptr::null_mut());

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
