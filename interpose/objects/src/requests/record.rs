//! Records in the table of requests.

use super::attached_buffer::Owner;
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtDatatype};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, Status};

/// Buffer, count, datatype, peer, tag and communicator of a message.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct Envelope {
    /// Address on the program side.
    pub buffer: u64,
    pub count: i32,
    pub datatype: u64,
    /// Rank in the communicator.
    pub peer: i32,
    pub tag: i32,
    /// Virtual communicator.
    pub comm: u64,
}

impl Envelope {
    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }

    pub fn datatype(&self) -> VirtDatatype {
        VirtDatatype(self.datatype as *mut c_void)
    }
}

/// Modes of sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Mode {
    Standard,
    Buffered,
    Synchronous,
    Ready,
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub enum Kind {
    Send,
    Synchronous,
    Receive(Envelope),
    /// Non-blocking collective, and the datatype that the program's operator receives.
    Collective(Option<u64>),
    /// One-sided operation (`MPI_Rput`, `MPI_Rget`, …).
    OneSided,
    /// Creation of the communicator with this index, or its report to all members
    /// (`MPI_Comm_idup`).
    Duplicate(u32),
    /// Persistent send (`MPI_Send_init`).
    PersistentSend(Mode, Envelope),
    /// Persistent receive (`MPI_Recv_init`).
    PersistentReceive(Envelope),
    /// Persistent collective or partitioned message, with the number of its recipe.
    ///
    /// Created by `MPI_Allreduce_init`, `MPI_Psend_init` and others.
    Recorded(u64),
    /// Generalized request (`MPI_Grequest_start`), which does not exist in the library.
    General(General),
    /// Completion of all messages in this buffer for buffered sends (`MPI_Buffer_iflush`).
    ///
    /// It does not exist in the library either.
    Flush(Owner),
}

/// The program's functions of a generalized request (MPI 4.1, section 13.2).
///
/// Addresses are those of the program side.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct General {
    /// Function that fills in the status.
    pub query: u64,
    /// Function that frees the data of the request.
    pub free: u64,
    /// Function that is called for `MPI_Cancel`.
    pub cancel: u64,
    /// Argument of all three functions.
    pub extra: u64,
    /// True if the functions are Fortran subroutines.
    ///
    /// These receive addresses, and the address of their error code as the last argument.
    pub in_fortran: bool,
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub enum State {
    /// Persistent request that is not started.
    Inactive,
    /// The real request is active.
    Active,
    /// Request whose completion does not depend on a real request.
    ///
    /// A generalized request that the program has not completed, a partitioned send with partitions
    /// that are not ready, a synchronous send whose message the program has not received, or a
    /// flush of a buffer with incomplete messages.
    Open,
    /// Complete with this outcome, which the program has not received yet.
    Done {
        /// Source, tag, error, cancelled, bytes.
        status: (i32, i32, i32, i32, u64),
        rc: i32,
    },
}

/// Request of the program.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Request {
    pub kind: Kind,
    pub state: State,
    /// Position among the starts of requests; for a persistent one, of its last start.
    pub begun: Stamp,
    /// Communicator whose error handler is used.
    pub comm: u64,
    /// True if `MPI_Request_free` was called while the request was active.
    pub orphan: bool,
    /// Buffer for buffered sends that the request uses, and the number of bytes.
    pub buffered: Option<(Owner, u64)>,
    /// Companion request, which the program does not see, and which completes with this one.
    pub other: Option<u32>,
}

impl Request {
    /// True if the library alone completes the request (no companion request).
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.state == State::Active && self.other.is_none()
    }

    /// True if the request is started and not complete.
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, State::Active | State::Open)
    }

    /// True if the request exists after its completion.
    pub fn is_persistent(&self) -> bool {
        matches!(
            self.kind,
            Kind::PersistentSend(..) | Kind::PersistentReceive(_) | Kind::Recorded(_)
        )
    }

    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }
}

impl Kind {
    /// True if the request sends a message.
    pub fn is_send(&self) -> bool {
        matches!(
            self,
            Kind::Send | Kind::Synchronous | Kind::PersistentSend(..)
        )
    }

    /// Returns the datatype that must not change until the request is removed.
    #[inline(always)]
    pub fn datatype(&self) -> Option<VirtDatatype> {
        match self {
            Kind::Collective(datatype) => datatype.map(|it| VirtDatatype(it as *mut c_void)),
            kind => kind.envelope().map(Envelope::datatype),
        }
    }

    /// Returns the message of a request, if it is needed to recreate the request.
    pub fn envelope(&self) -> Option<&Envelope> {
        match self {
            Kind::Receive(envelope)
            | Kind::PersistentSend(_, envelope)
            | Kind::PersistentReceive(envelope) => Some(envelope),
            Kind::Send
            | Kind::Synchronous
            | Kind::Collective(_)
            | Kind::OneSided
            | Kind::Duplicate(_)
            | Kind::Recorded(_)
            | Kind::General(_)
            | Kind::Flush(_) => None,
        }
    }
}

/// Outcome of a completed request.
#[derive(Clone, Copy)]
pub struct Outcome {
    pub status: Status,
    /// Return code of the completing procedure.
    pub rc: c_int,
    /// Communicator whose error handler is used.
    pub comm: Option<VirtComm>,
}

impl Outcome {
    /// Outcome of a request that does not exist or has no status.
    pub const NOTHING: Outcome = Outcome {
        status: EMPTY,
        rc: SUCCESS,
        comm: None,
    };
}

/// Status without a message (MPI 4.1, section 3.7.3: empty).
pub const EMPTY: Status = Status {
    source: ANY_SOURCE,
    tag: ANY_TAG,
    error: SUCCESS,
    cancelled: 0,
    bytes: 0,
};

/// Returns the state of a request that is complete with this outcome.
pub fn done(status: Status, rc: c_int) -> State {
    State::Done {
        status: (
            status.source,
            status.tag,
            status.error,
            status.cancelled,
            status.bytes as u64,
        ),
        rc,
    }
}

/// Position of a request in the order of the calls that have started requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
pub struct Stamp(pub(super) u64);
