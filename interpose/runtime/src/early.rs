//! Early messages: received at a cut ([`crate::drain`]) before the program asked for them, kept with the image, and delivered to later
//! receives. And messages that the program has matched but not yet received ([`matched`]).
#![allow(unsafe_code)]

mod matched;

use crate::cell::{Field, runtime};
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles::{VirtComm, real_datatype};
use crate::own_messages::{Peer, Told, tag};
use crate::requests::{EMPTY, Envelope, Outcome};
use crate::{requests, world};
pub use matched::{
    Found, Matched, claim, enter as enter_matched, exists as matched_exists,
    forget as forget_matched, is_received, matched, places, take as take_matched,
};
use std::cell::Ref;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_mpi::bytes::Bytes;
use understudy_mpi::check;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealRequest, Status};
use understudy_numbers::Worker;

runtime! {
    pub struct Runtime: requests::Runtime {
        /// Messages that were received before the program asked.
        early: Field<Vec<Early>> = Field::new(Vec::new()),
        /// By index of the virtual message.
        matched: Field<Vec<Option<Matched>>> = Field::new(Vec::new()),
        /// What senders are being told.
        told: Field<Told> = Field::new(Told::NONE),
    }
}

/// A message that was taken before the program asked for it.
#[derive(Clone, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub struct Early {
    /// Virtual communicator.
    pub comm: u64,
    /// Rank of the sender in it.
    pub source: i32,
    pub tag: i32,
    /// The bytes, in the order of the sender's type map.
    pub data: Vec<u8>,
    /// The program has matched it already (MPI_Mprobe) and has this virtual message.
    pub claimed: Option<u32>,
    /// Its sender waits to hear that the program has received it: that worker, and the number of the send there ([`requests::synchronous`]).
    pub owed: Option<(u32, u64)>,
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

pub fn add(rt: &Runtime, early: Early) {
    change(rt, |list| list.push(early));
}

/// Replaces them by saved ones.
pub fn replace(rt: &Runtime, saved: Vec<Early>) {
    rt.told.set(Told::NONE);
    change(rt, |list| *list = saved);
}

/// A synchronous send of this `sender`, a worker and its number, after which so many messages with this communicator, source and tag were sent: whether
/// its message is among the early ones. Then the sender is told when the program receives it.
pub fn owe(
    rt: &Runtime,
    (comm, source, tag): (VirtComm, c_int, c_int),
    followers: u64,
    (worker, number): (Worker, u64),
) -> bool {
    let is_like =
        |early: &&mut Early| (early.comm, early.source, early.tag) == (comm.0 as u64, source, tag);
    let mut list = rt.early.borrow_mut();
    match list
        .iter_mut()
        .filter(is_like)
        .rev()
        .nth(followers as usize)
    {
        Some(early) => {
            early.owed = Some((worker.0, number));
            true
        }
        None => false,
    }
}

/// Tells the sender that the program has received its message.
fn tell(rt: &Runtime, early: &Early) {
    if let Some((worker, number)) = early.owed {
        let to = Peer {
            comm: world::private(rt),
            rank: Worker(worker),
            tag: tag::TAKEN,
        };
        let mut told = rt.told.borrow_mut();
        // A failure is met by whatever is called next.
        let _ = told
            .sweep()
            .and_then(|()| told.send(number.to_ne_bytes(), [to]));
    }
}

/// Whether the program has requests on a communicator, or messages that have been matched there.
pub fn is_used(rt: &Runtime, comm: VirtComm) -> bool {
    requests::are_on(rt, comm)
        || rt
            .matched
            .borrow()
            .iter()
            .flatten()
            .any(|matched| matched.comm == comm)
}

/// Nothing that has come on a communicator is received any more, whatever gets its handle: the program has freed it.
pub fn drop_on(rt: &Runtime, comm: VirtComm) {
    if has_any() {
        change(rt, |list| {
            list.retain(|early| early.claimed.is_some() || early.comm != comm.0 as u64);
        });
    }
}

/// Whether there are any.
#[inline]
pub fn has_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}

/// The place of the first of these messages that matches.
pub fn first(list: &[Early], comm: VirtComm, source: c_int, tag: c_int) -> Option<usize> {
    list.iter()
        .position(|early| early.matches(comm, source, tag))
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
    tell(rt, early);
    let own = world::own_comm(rt);
    let (mut status, mut request) = (EMPTY, RealRequest(std::ptr::null_mut()));
    let (to, datatype) = (
        envelope.buffer as *mut c_void,
        real_datatype(rt, envelope.datatype()),
    );
    let from = early.data.as_ptr().cast();
    // SAFETY: a message from this process to itself, on a communicator of our own; the program's buffer.
    let sent = Bytes::new(early.data.len()).and_then(|bytes| unsafe {
        check(real::PMPI_Isend(
            from,
            bytes.count(),
            bytes.datatype(),
            0,
            0,
            own,
            &mut request,
        ))
    });
    let rc = match sent {
        // SAFETY: as above.
        Ok(()) => unsafe {
            let rc = real::PMPI_Recv(to, envelope.count, datatype, 0, 0, own, &mut status);
            real::PMPI_Wait(&mut request, std::ptr::null_mut());
            rc
        },
        Err(error) => error.code(),
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
            owed: None,
        };
        assert!(
            early.matches(comm, 3, 7)
                && early.matches(comm, ANY_SOURCE, 7)
                && early.matches(comm, 3, ANY_TAG)
        );
        assert!(!early.matches(comm, 2, 7) && !early.matches(comm, 3, 8));
        assert!(!early.matches(VirtComm(80 as *mut c_void), ANY_SOURCE, ANY_TAG));
        assert_eq!(early.status().bytes, 2);
    }
}
