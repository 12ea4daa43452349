//! Table of requests, with their real requests.

use super::attached_buffer::AttachedBuffer;
use super::request::{RequestKind, RequestState};
use super::requests_by_age::Requests;
use crate::generated::HandleKind;
use crate::handles::{self, VirtComm, VirtRequest};
use crate::runtime_state::StateCell;
use std::any::Any;
use std::cell::Cell;
use understudy_mpi::real_types::RealRequest;

/// Requests of this process, and buffers for buffered sends.
pub struct RequestTable {
    /// All requests of the program.
    pub(super) table: StateCell<TableWithReals>,
    /// Number of further frees after which all freed requests are tested.
    pub(super) until_reaped: Cell<u32>,
    /// The program's buffers for buffered sends.
    pub(super) attached: StateCell<Vec<AttachedBuffer>>,
    /// True if a receive was cancelled by a call of this process.
    pub(super) has_cancelled: Cell<bool>,
}

impl RequestTable {
    /// Returns the state at the start of the process.
    pub const fn start() -> RequestTable {
        RequestTable {
            table: StateCell::new(TableWithReals {
                requests: Requests::NONE,
                real_requests: Vec::new(),
                library_data: Vec::new(),
                unready: Vec::new(),
            }),
            until_reaped: Cell::new(0),
            attached: StateCell::new(Vec::new()),
            has_cancelled: Cell::new(false),
        }
    }
}

/// Requests, with their real requests and data of the library.
pub(super) struct TableWithReals {
    pub(super) requests: Requests,
    pub(super) real_requests: Vec<RealRequest>,
    /// Values that the real library uses until the request with this index is complete.
    pub(super) library_data: Vec<(u32, Box<dyn Any + Send>)>,
    /// Number of partitions that are not ready, by index of the started partitioned send.
    pub(super) unready: Vec<(u32, u64)>,
}

pub(super) const NULL: RealRequest = RealRequest(std::ptr::null_mut());

impl TableWithReals {
    /// Adds a request, built in place to avoid a store-forwarding stall.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        comm: VirtComm,
        kind: RequestKind,
        state: RequestState,
        real: RealRequest,
    ) -> VirtRequest {
        let index = self.requests.insert(comm.0 as u64, kind, state);
        match self.real_requests.get_mut(index as usize) {
            Some(entry) => *entry = real,
            None => self.real_requests.push(real),
        }
        VirtRequest(handles::virtual_handle(HandleKind::Request, index))
    }
}
