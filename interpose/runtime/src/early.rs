//! Early messages: received at a cut ([`crate::drain`]) before the program asked for them, kept with the image, and delivered to later
//! receives. And messages that the program has matched but not yet received ([`matched`]).
#![allow(unsafe_code)]

mod matched;

use crate::cell::{Field, runtime};
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles::{VirtComm, real_datatype};
use crate::requests::{EMPTY, Envelope, Outcome};
use crate::{requests, world};
pub use matched::{
    Found, Matched, claim, enter as enter_matched, exists as matched_exists, forget as forget_matched, is_received,
    matched, places, take as take_matched,
};
use std::cell::Ref;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealRequest, Status};

runtime! {
    pub struct Runtime: requests::Runtime {
        /// Messages that were received before the program asked.
        early: Field<Vec<Early>> = Field::new(Vec::new()),
        /// By index of the virtual message.
        matched: Field<Vec<Option<Matched>>> = Field::new(Vec::new()),
    }
}

/// A message that was taken before the program asked for it.
#[derive(Clone, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub struct Early {
    /// Virtual communicator.
    pub comm: u64,
    /// Rank of the sender in it.
    pub source: i32,
    /// Tag.
    pub tag: i32,
    /// The bytes, in the order of the sender's type map.
    pub data: Vec<u8>,
    /// The program has matched it already (MPI_Mprobe) and has this virtual message.
    pub claimed: Option<u32>,
}

impl Early {
    fn matches(&self, comm: VirtComm, source: c_int, tag: c_int) -> bool {
        self.claimed.is_none()
            && self.comm == comm.0 as u64
            && (source == ANY_SOURCE || source == self.source)
            && (tag == ANY_TAG || tag == self.tag)
    }

    fn status(&self) -> Status {
        Status {
            source: self.source,
            tag: self.tag,
            error: SUCCESS,
            cancelled: 0,
            bytes: self.data.len(),
        }
    }
}

/// Whether there are any: what every receive looks at.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

fn change<T>(rt: &Runtime, how: impl FnOnce(&mut Vec<Early>) -> T) -> T {
    let mut list = rt.early.borrow_mut();
    let outcome = how(&mut list);
    HAS_ANY.store(!list.is_empty(), Ordering::Relaxed);
    outcome
}

/// The early messages, to be saved with a cut.
pub fn list(rt: &Runtime) -> Ref<'_, Vec<Early>> {
    rt.early.borrow()
}

/// Adds one.
pub fn add(rt: &Runtime, early: Early) {
    change(rt, |list| list.push(early));
}

/// Replaces them by saved ones.
pub fn replace(rt: &Runtime, saved: Vec<Early>) {
    change(rt, |list| *list = saved);
}

/// Whether there are any.
#[inline]
pub fn has_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}

/// The place of the first of these messages that matches.
pub fn first(list: &[Early], comm: VirtComm, source: c_int, tag: c_int) -> Option<usize> {
    list.iter().position(|early| early.matches(comm, source, tag))
}

/// The status of the first early message that matches.
pub fn peek(rt: &Runtime, comm: VirtComm, source: c_int, tag: c_int) -> Option<Status> {
    let list = rt.early.borrow();
    first(&list, comm, source, tag).map(|at| list[at].status())
}

/// Delivers the first early message that matches this receive.
#[inline]
pub fn take(rt: &Runtime, envelope: &Envelope) -> Option<Outcome> {
    if has_any() { find(rt, envelope) } else { None }
}

#[inline(never)]
fn find(rt: &Runtime, envelope: &Envelope) -> Option<Outcome> {
    let early = change(rt, |list| {
        let at = first(list, envelope.comm(), envelope.peer, envelope.tag)?;
        Some(list.remove(at))
    })?;
    Some(deliver(rt, &early, envelope))
}

/// Delivers an early message: as a message to oneself, so that types, truncation and status come out as in a receive.
/// It is sent first: to a receive that is posted already Open MPI 5.0 does not tell that a message to oneself is too long.
pub fn deliver(rt: &Runtime, early: &Early, envelope: &Envelope) -> Outcome {
    let own = world::own_comm(rt);
    let (mut status, mut request) = (EMPTY, RealRequest(std::ptr::null_mut()));
    let (to, datatype) = (envelope.buffer as *mut c_void, real_datatype(rt, envelope.datatype()));
    let (from, length) = (early.data.as_ptr().cast(), early.data.len() as c_int);
    // SAFETY: a message from this process to itself, on a communicator of our own; the program's buffer.
    let rc = unsafe {
        match real::PMPI_Isend(from, length, understudy_mpi::comm::byte(), 0, 0, own, &mut request) {
            SUCCESS => {
                let rc = real::PMPI_Recv(to, envelope.count, datatype, 0, 0, own, &mut status);
                real::PMPI_Wait(&mut request, std::ptr::null_mut());
                rc
            }
            rc => rc,
        }
    };
    // The message was counted when it was drained; nobody counts this delivery.
    Outcome {
        status: Status {
            source: early.source,
            tag: early.tag,
            ..status
        },
        rc,
        comm: Some(envelope.comm()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_messages_match_by_communicator_source_and_tag() {
        let comm = VirtComm(64 as *mut c_void);
        let early = Early {
            comm: 64,
            source: 3,
            tag: 7,
            data: vec![1, 2],
            claimed: None,
        };
        assert!(early.matches(comm, 3, 7) && early.matches(comm, ANY_SOURCE, 7) && early.matches(comm, 3, ANY_TAG));
        assert!(!early.matches(comm, 2, 7) && !early.matches(comm, 3, 8));
        assert!(!early.matches(VirtComm(80 as *mut c_void), ANY_SOURCE, ANY_TAG));
        assert_eq!(early.status().bytes, 2);
    }
}
