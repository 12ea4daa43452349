//! Messages that the program has matched but not yet received (MPI 4.1, section 3.8.2).
//!
//! At a cut they are received and become early messages that nothing else matches; so all that a rollback brings back
//! is in the list of those.
use super::{EARLY, Early, receive_matched};
use crate::arch::Rewound;
use crate::cell::Main;
use crate::generated::HandleKind;
use crate::handles::{self, VirtComm, VirtMessage};
use crate::objects::lookup::created;
use crate::real_types::{RealMessage, Status};
use crate::requests;
use std::ffi::c_int;

/// A matched message in the real library.
#[derive(Clone, Copy)]
struct Matched {
    comm: VirtComm,
    real: RealMessage,
    status: Status,
}

/// By index of the virtual message.
static MATCHED: Main<Vec<Option<Matched>>> = Main::new(Vec::new());

/// Where a virtual message is.
pub enum Found {
    /// In the real library; it came on this communicator, with this status.
    Real(RealMessage, VirtComm, Status),
    /// It was received at a cut.
    Early(Early),
}

fn claimed(index: u32) -> Option<usize> {
    EARLY.get().iter().position(|early| early.claimed == Some(index))
}

fn unused() -> u32 {
    let real = |index: u32| MATCHED.get().get(index as usize).is_some_and(Option::is_some);
    (0..)
        .find(|&index| !real(index) && claimed(index).is_none())
        .unwrap_or(0)
}

fn handle(index: u32) -> VirtMessage {
    VirtMessage(handles::virtual_handle(HandleKind::Message, index))
}

/// Whether there is a message with this index.
pub fn exists(index: u32) -> bool {
    MATCHED.get().get(index as usize).is_some_and(Option::is_some) || claimed(index).is_some()
}

/// Enters a message that the real library has matched on `comm`.
pub fn enter_matched(comm: VirtComm, real: RealMessage, status: Status) -> VirtMessage {
    let index = unused();
    let table = MATCHED.get();
    if table.len() <= index as usize {
        table.resize(index as usize + 1, None);
    }
    table[index as usize] = Some(Matched { comm, real, status });
    handle(index)
}

/// Matches the first early message that fits.
pub fn claim_early(comm: VirtComm, source: c_int, tag: c_int) -> Option<(VirtMessage, Status)> {
    let index = unused();
    let early = EARLY.get().iter_mut().find(|early| early.matches(comm, source, tag))?;
    early.claimed = Some(index);
    Some((handle(index), early.status()))
}

/// Removes a matched message, to be received.
pub fn take(message: VirtMessage) -> Option<Found> {
    let index = created(HandleKind::Message, message.0)?;
    if let Some(at) = claimed(index) {
        return Some(Found::Early(EARLY.get().remove(at)));
    }
    let matched = MATCHED.get().get_mut(index as usize)?.take()?;
    Some(Found::Real(matched.real, matched.comm, matched.status))
}

/// The communicators are gone after a failure, and with them what was matched on them.
pub fn forget() {
    MATCHED.get().clear();
}

/// Receives all matched messages for a cut.
pub(super) fn receive_all() -> Result<(), Rewound> {
    for index in 0..MATCHED.get().len() {
        let Some(Matched {
            comm,
            mut real,
            mut status,
        }) = MATCHED.get()[index]
        else {
            continue;
        };
        let data = receive_matched(&mut real, &mut status)?;
        MATCHED.get()[index] = None;
        requests::count_received(comm, &status);
        let (source, tag) = (status.source, status.tag);
        EARLY.get().push(Early {
            comm: comm.0 as u64,
            source,
            tag,
            data,
            claimed: Some(index as u32),
        });
    }
    Ok(())
}
