//! Persistent requests (MPI 4.1, section 3.9).
#![allow(unsafe_code)]

use super::{EMPTY, Kind, Mode, NULL, State, TABLE, count_sent, done, get};
use crate::arch::Rewound;
use crate::calls::memory_state::buffered_send;
use crate::drain;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles::{real_comm, real_datatype};
use crate::real_types::RealRequest;
use crate::recovery;
use std::ffi::{c_int, c_void};

/// Makes the real persistent request. That of a buffered send is never started: it only checks the arguments.
pub fn persistent(kind: &Kind) -> Result<RealRequest, Rewound> {
    let mut request = NULL;
    let (Kind::PersistentSend(_, envelope) | Kind::PersistentReceive(envelope)) = kind else {
        return Ok(request);
    };
    let buffer = envelope.buffer as *mut c_void;
    let (datatype, comm) = (real_datatype(envelope.datatype()), real_comm(envelope.comm()));
    let (count, peer, tag) = (envelope.count, envelope.peer, envelope.tag);
    // SAFETY: the program's buffer, count and type.
    let rc = unsafe {
        match kind {
            Kind::PersistentSend(Mode::Standard, _) => {
                real::PMPI_Send_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            Kind::PersistentSend(Mode::Buffered, _) => {
                real::PMPI_Send_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            Kind::PersistentSend(Mode::Synchronous, _) => {
                real::PMPI_Ssend_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            Kind::PersistentSend(Mode::Ready, _) => {
                real::PMPI_Rsend_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            _ => real::PMPI_Recv_init(buffer, count, datatype, peer, tag, comm, &mut request),
        }
    };
    recovery::check(rc)?;
    Ok(request)
}

/// Starts a persistent request (MPI_Start).
pub fn start(index: u32) -> Result<c_int, Rewound> {
    let Some(request) = get(index) else {
        return Ok(crate::errors::ERR_REQUEST);
    };
    if let Kind::PersistentReceive(envelope) = request.kind
        && let Some(outcome) = drain::take_early(&envelope)
    {
        request.state = done(outcome.status, outcome.rc);
        return Ok(SUCCESS);
    }
    if let Kind::PersistentSend(Mode::Buffered, envelope) = request.kind {
        let rc = buffered_send(&envelope)?;
        if rc == SUCCESS {
            request.state = done(EMPTY, SUCCESS);
        }
        return Ok(rc);
    }
    // SAFETY: an inactive persistent request.
    let rc = recovery::check(unsafe { real::PMPI_Start(&mut TABLE.get().reals[index as usize]) })?;
    if rc == SUCCESS {
        request.state = State::Active;
        if let Kind::PersistentSend(_, envelope) = request.kind {
            count_sent(envelope.comm(), envelope.peer, envelope.count, envelope.datatype());
        }
    }
    Ok(rc)
}
