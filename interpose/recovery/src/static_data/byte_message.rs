//! Messages about trial replays: bytes of any length, which are sent without blocking.
#![allow(unsafe_code)]

use crate::control_messages::{self, InFlightBuffer, Peer};
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::requests::EMPTY_STATUS;
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::{ANY_SOURCE, RealComm, RealRequest, Status};
use understudy_numbers::Worker;

/// Message in flight, with its memory.
///
/// Dropping the message before it is complete leaks its memory, since the library may
/// still access it.
pub(super) struct ByteMessage {
    pub(super) bytes: InFlightBuffer<Vec<u8>>,
    requests: Vec<RealRequest>,
    /// Sender of a message that is received, or receiver of one that is sent.
    pub(super) peer: Worker,
}

impl ByteMessage {
    /// Sends bytes.
    pub(super) fn send(bytes: Vec<u8>, to: Peer) -> Option<ByteMessage> {
        let mut requests = Vec::new();
        c_int::try_from(bytes.len()).ok()?;
        // SAFETY: the bytes live as long as the request.
        unsafe { control_messages::send(bytes.as_ptr().cast(), bytes.len(), to, &mut requests) }
            .ok()?;
        Some(ByteMessage::started(bytes, requests, to.rank))
    }

    /// Posts the receive of a message of this length.
    pub(super) fn receive(length: usize, from: Peer) -> Option<ByteMessage> {
        let (mut bytes, mut requests) = (vec![0u8; length], Vec::new());
        // SAFETY: the bytes live as long as the request.
        unsafe {
            control_messages::receive(bytes.as_mut_ptr().cast(), length, from, &mut requests)
        }
        .ok()?;
        Some(ByteMessage::started(bytes, requests, from.rank))
    }

    fn started(bytes: Vec<u8>, requests: Vec<RealRequest>, peer: Worker) -> ByteMessage {
        let bytes = InFlightBuffer::new(bytes);
        ByteMessage {
            bytes,
            requests,
            peer,
        }
    }

    /// Posts the receive of a message that has arrived, if there is one.
    ///
    /// `from` is the sender; `None` allows any sender.
    pub(super) fn probe(comm: RealComm, from: Option<Worker>, tag: c_int) -> Option<ByteMessage> {
        let source = from.map_or(ANY_SOURCE, |worker| worker.0 as c_int);
        let (mut flag, mut status, mut length) = (0, EMPTY_STATUS, 0);
        let status: &mut Status = &mut status;
        // SAFETY: a probe on a communicator of the runtime, and the length of a message of bytes.
        unsafe {
            let rc = real::PMPI_Iprobe(source, tag, comm, &mut flag, status);
            if rc != SUCCESS || flag == 0 {
                return None;
            }
            real::PMPI_Get_count(status, understudy_mpi::comm::byte(), &mut length);
        }
        let rank = Worker(status.source as u32);
        ByteMessage::receive(length.max(0) as usize, Peer { comm, rank, tag })
    }

    /// Returns true if the message is complete.
    ///
    /// After an error the library may still access the memory.
    pub(super) fn test(&mut self) -> mpi::Result<bool> {
        let is_complete = control_messages::test(&mut self.requests)?;
        if is_complete {
            self.bytes.complete();
        }
        Ok(is_complete)
    }
}
