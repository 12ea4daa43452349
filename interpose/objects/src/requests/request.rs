//! Records in the table of requests.

use super::attached_buffer::{BufferOwner, BufferUse};
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtDatatype};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, Status};

/// Arguments of a send or receive, needed to post the operation once more.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct MessageArguments {
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

impl MessageArguments {
    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }

    pub fn datatype(&self) -> VirtDatatype {
        VirtDatatype(self.datatype as *mut c_void)
    }
}

/// Modes of sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum SendMode {
    Standard,
    Buffered,
    Synchronous,
    Ready,
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub enum RequestKind {
    /// Send that is not persistent, in any mode except the synchronous mode.
    Send,
    /// Synchronous send that is not persistent.
    Synchronous,
    Receive(MessageArguments),
    /// Non-blocking collective; a reduction has the datatype that the program's operator receives.
    Collective(Option<u64>),
    /// One-sided operation (`MPI_Rput`, `MPI_Rget`, …).
    OneSided,
    /// Creation of the communicator with this index (`MPI_Comm_idup`).
    ///
    /// Also the kind of the companion, which broadcasts the `uid` of the communicator.
    Duplicate(u32),
    /// Persistent send (`MPI_Send_init`).
    PersistentSend(SendMode, MessageArguments),
    /// Persistent receive (`MPI_Recv_init`).
    PersistentReceive(MessageArguments),
    /// Persistent collective or partitioned message, with the number of its recipe.
    ///
    /// Created by `MPI_Allreduce_init`, `MPI_Psend_init` and similar procedures.
    Recorded(u64),
    /// Generalized request (`MPI_Grequest_start`), which does not exist in the library.
    General(GeneralizedFunctions),
    /// Completion of all messages in this buffer for buffered sends (`MPI_Buffer_iflush`).
    ///
    /// The request does not exist in the library.
    Flush(BufferOwner),
}

/// The program's functions of a generalized request (MPI 4.1, section 13.2).
///
/// Addresses are those of the program side.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct GeneralizedFunctions {
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
    /// Fortran subroutines receive addresses, and the address of their error code as the last
    /// argument.
    pub in_fortran: bool,
}

/// State of a request.
///
/// Most requests are `Active` from their start until the library completes them. Then they are
/// removed, or become `Inactive` if they are persistent. A started request whose
/// completion the library cannot report yet is `Open` instead. A complete request is `Done` until
/// the program receives the outcome; the fast path passes the outcome on at once and skips this
/// state.
#[derive(Clone, Copy, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub enum RequestState {
    /// Persistent request that is not started.
    Inactive,
    /// The real request is active.
    Active,
    /// Started request for which the library is not polled.
    ///
    /// A generalized request that the program has not completed, a partitioned send with partitions
    /// that are not ready, a synchronous send whose message the program has not received, or a
    /// flush of a buffer with incomplete messages.
    Open,
    /// Complete with this outcome, which the program has not received yet.
    Done {
        status: SavedStatus,
        /// Return code of the completing procedure.
        rc: i32,
    },
}

/// Status of a complete request, in a form that can be saved.
#[derive(Clone, Copy, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub struct SavedStatus {
    pub source: i32,
    pub tag: i32,
    pub error: i32,
    pub cancelled: i32,
    pub bytes: u64,
}

/// Request of the program.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Request {
    pub kind: RequestKind,
    pub state: RequestState,
    /// Position among the starts of requests; for a persistent request, that of its last start.
    pub stamp: StartStamp,
    /// Communicator whose error handler is used.
    pub comm: u64,
    /// True if `MPI_Request_free` was called while the request was active.
    pub is_freed: bool,
    /// Space in a buffer for buffered sends that the request uses.
    pub buffered: Option<BufferUse>,
    /// Index of the companion request, which the program does not see.
    ///
    /// For the program, the request is complete when both the request and its companion are. The
    /// companion of the receive in `MPI_Isendrecv` is the send. The companion of a duplicated
    /// communicator's request is the broadcast of the new communicator's number.
    pub companion: Option<u32>,
}

impl Request {
    /// True if the request is active and has no companion.
    ///
    /// The MPI library alone completes such a request.
    #[inline(always)]
    pub fn is_completed_by_library(&self) -> bool {
        self.state == RequestState::Active && self.companion.is_none()
    }

    /// True if the request is started and not complete.
    pub fn is_started(&self) -> bool {
        matches!(self.state, RequestState::Active | RequestState::Open)
    }

    /// True if the request exists after its completion.
    pub fn is_persistent(&self) -> bool {
        matches!(
            self.kind,
            RequestKind::PersistentSend(..)
                | RequestKind::PersistentReceive(_)
                | RequestKind::Recorded(_)
        )
    }

    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }
}

impl RequestKind {
    /// True for point-to-point sends except partitioned sends, which are `Recorded`.
    pub fn is_plain_send(&self) -> bool {
        matches!(
            self,
            RequestKind::Send | RequestKind::Synchronous | RequestKind::PersistentSend(..)
        )
    }

    /// Returns the datatype that is retained until the request is removed.
    #[inline(always)]
    pub fn datatype(&self) -> Option<VirtDatatype> {
        match self {
            RequestKind::Collective(datatype) => {
                datatype.map(|handle| VirtDatatype(handle as *mut c_void))
            }
            kind => kind.message_arguments().map(MessageArguments::datatype),
        }
    }

    /// Returns the message of a request, if it is needed to recreate the request.
    pub fn message_arguments(&self) -> Option<&MessageArguments> {
        match self {
            RequestKind::Receive(message_arguments)
            | RequestKind::PersistentSend(_, message_arguments)
            | RequestKind::PersistentReceive(message_arguments) => Some(message_arguments),
            RequestKind::Send
            | RequestKind::Synchronous
            | RequestKind::Collective(_)
            | RequestKind::OneSided
            | RequestKind::Duplicate(_)
            | RequestKind::Recorded(_)
            | RequestKind::General(_)
            | RequestKind::Flush(_) => None,
        }
    }
}

/// Outcome of a completed request.
#[derive(Clone, Copy)]
pub struct RequestOutcome {
    pub status: Status,
    /// Return code of the completing procedure.
    pub rc: c_int,
    /// Communicator whose error handler is used.
    pub comm: Option<VirtComm>,
}

impl RequestOutcome {
    /// Outcome of a request that does not exist or has no status.
    pub const EMPTY: RequestOutcome = RequestOutcome {
        status: EMPTY_STATUS,
        rc: SUCCESS,
        comm: None,
    };
}

/// Status without a message (MPI 4.1, section 3.7.3: empty).
pub const EMPTY_STATUS: Status = Status {
    source: ANY_SOURCE,
    tag: ANY_TAG,
    error: SUCCESS,
    cancelled: 0,
    bytes: 0,
};

/// Returns the state of a request that is complete with this outcome.
pub fn done_state(status: Status, rc: c_int) -> RequestState {
    RequestState::Done {
        status: SavedStatus {
            source: status.source,
            tag: status.tag,
            error: status.error,
            cancelled: status.cancelled,
            bytes: status.bytes as u64,
        },
        rc,
    }
}

/// Position of a request in the order of the calls that have started requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
pub struct StartStamp(pub(super) u64);
