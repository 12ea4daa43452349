//! What the table of requests holds.

use super::attached_buffer::Owner;
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtDatatype};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, Status};

/// Buffer, count, datatype, peer and tag of a message, on one communicator.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct Envelope {
    /// Address on the user side.
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

/// The four ways to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Mode {
    Standard,
    Buffered,
    Synchronous,
    Ready,
}

/// What a request does.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub enum Kind {
    Send,
    Synchronous,
    Receive(Envelope),
    /// A non-blocking collective, and the datatype that the program's operator is told of.
    Collective(Option<u64>),
    /// A one-sided operation (MPI_Rput, MPI_Rget, …).
    OneSided,
    /// Makes the communicator of this index, or tells all members of it (MPI_Comm_idup).
    Duplicate(u32),
    /// A persistent send (MPI_Send_init).
    PersistentSend(Mode, Envelope),
    /// A persistent receive (MPI_Recv_init).
    PersistentReceive(Envelope),
    /// A persistent collective or a partitioned message (MPI_Allreduce_init, MPI_Psend_init) with
    /// the number of its recipe.
    Recorded(u64),
    /// A generalized request (MPI_Grequest_start), which the library does not know.
    General(General),
    /// Ends with the messages that were in this buffer for buffered sends (MPI_Buffer_iflush). The
    /// library does not know it either.
    Flush(Owner),
}

/// The program's functions of a generalized request (MPI 4.1, section 13.2), as addresses on the
/// user side.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct General {
    /// Fills in the status.
    pub query: u64,
    /// Frees what belongs to it.
    pub free: u64,
    /// Is told of MPI_Cancel.
    pub cancel: u64,
    /// What all of them get.
    pub extra: u64,
    /// They are subroutines of Fortran, which take addresses, and that of their error code last.
    pub in_fortran: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub enum State {
    /// A persistent request that is not started.
    Inactive,
    /// The real request is under way.
    Active,
    /// A generalized request that the program has not completed, a partitioned send of which not
    /// all is ready, a synchronous send whose message the program has not received, or messages in
    /// a buffer that have not ended.
    Open,
    /// It has ended with this outcome, which the program has not asked for yet.
    Done {
        /// Source, tag, error, cancelled, bytes.
        status: (i32, i32, i32, i32, u64),
        rc: i32,
    },
}

/// A request of the program.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Request {
    pub kind: Kind,
    /// How far it is.
    pub state: State,
    /// When it was begun; a persistent one, when it was last started.
    pub begun: Stamp,
    /// The communicator whose error handler is concerned.
    pub comm: u64,
    /// MPI_Request_free was called on it while it was active.
    pub orphan: bool,
    /// How many bytes of which buffer for buffered sends it takes.
    pub buffered: Option<(Owner, u64)>,
    /// A second request, unknown to the program, that ends with this one.
    pub other: Option<u32>,
}

impl Request {
    /// Whether only the library needs to be asked for it.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.state == State::Active && self.other.is_none()
    }

    /// Whether it has been started and has not ended.
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, State::Active | State::Open)
    }

    /// Whether it outlives its completion.
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
    /// Whether it sends a message.
    pub fn is_send(&self) -> bool {
        matches!(
            self,
            Kind::Send | Kind::Synchronous | Kind::PersistentSend(..)
        )
    }

    /// The datatype that must stay as it is until the request is gone.
    #[inline(always)]
    pub fn datatype(&self) -> Option<VirtDatatype> {
        match self {
            Kind::Collective(datatype) => datatype.map(|it| VirtDatatype(it as *mut c_void)),
            kind => kind.envelope().map(Envelope::datatype),
        }
    }

    /// What it sends or receives, if that has to be known to make it again.
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

/// The end of a request.
#[derive(Clone, Copy)]
pub struct Outcome {
    pub status: Status,
    /// What the completing procedure returns.
    pub rc: c_int,
    /// The communicator whose error handler is concerned.
    pub comm: Option<VirtComm>,
}

impl Outcome {
    /// Of a request that does not exist, or has nothing to say.
    pub const NOTHING: Outcome = Outcome {
        status: EMPTY,
        rc: SUCCESS,
        comm: None,
    };
}

/// A status without a message (MPI 4.1, section 3.7.3: empty).
pub const EMPTY: Status = Status {
    source: ANY_SOURCE,
    tag: ANY_TAG,
    error: SUCCESS,
    cancelled: 0,
    bytes: 0,
};

/// Ended, with this outcome.
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

/// When a request was begun: compares like the calls that began them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
pub struct Stamp(pub(super) u64);
