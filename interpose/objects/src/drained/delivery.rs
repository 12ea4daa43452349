//! Delivery of drained messages to later receives.
#![allow(unsafe_code)]

use super::drained_message::{DrainedMessage, first_matching};
use super::drained_table::{change, has_any};
use crate::Runtime;
use crate::control_messages::{InFlight, Peer, tag};
use crate::generated::real;
use crate::handles::{VirtComm, real_datatype};
use crate::requests::{EMPTY_STATUS, MessageArguments, RequestOutcome};
use crate::world;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::Status;
use understudy_numbers::Worker;

/// Requests a notification of the sender when the program receives a drained message.
///
/// The message is that of the synchronous send number `number` of `worker`. Drained messages with
/// equal communicator, source and tag are in the order of their sends. The worker has sent
/// `followers` messages with these values after the message, so exactly the last `followers` of the
/// drained ones follow it.
///
/// Returns false if the message is not a drained message: the program has received it already.
pub fn notify_on_receive(
    rt: &Runtime,
    (comm, source, tag): (VirtComm, c_int, c_int),
    followers: u64,
    (worker, number): (Worker, u64),
) -> bool {
    let has_envelope = |drained: &&mut DrainedMessage| {
        (drained.comm, drained.source, drained.tag) == (comm.0 as u64, source, tag)
    };
    let mut list = rt.drained.messages.borrow_mut();
    match list
        .iter_mut()
        .filter(has_envelope)
        .rev()
        .nth(followers as usize)
    {
        Some(drained) => {
            drained.sender_to_notify = Some((worker.0, number));
            true
        }
        None => false,
    }
}

/// Notifies the sender of a synchronous send that the program has received its message.
fn notify_sender(rt: &Runtime, drained: &DrainedMessage) {
    if let Some((worker, number)) = drained.sender_to_notify {
        let to = Peer {
            comm: world::private(rt),
            rank: Worker(worker),
            tag: tag::DRAINED_RECEIVED,
        };
        let mut notifications = rt.drained.notifications.borrow_mut();
        // A failure is detected by the next call.
        let _ = notifications
            .remove_sent()
            .and_then(|()| notifications.send(number.to_ne_bytes(), [to]));
    }
}

/// Returns the status of the first drained message that matches.
pub fn peek(rt: &Runtime, comm: VirtComm, source: c_int, tag: c_int) -> Option<Status> {
    let list = rt.drained.messages.borrow();
    first_matching(&list, comm, source, tag).map(|at| list[at].status())
}

/// Delivers the first drained message that matches this receive; `None` if none matches.
#[inline]
pub fn take(rt: &Runtime, message_arguments: &MessageArguments) -> Option<RequestOutcome> {
    if has_any() {
        take_matching(rt, message_arguments)
    } else {
        None
    }
}

#[inline(never)]
fn take_matching(rt: &Runtime, message_arguments: &MessageArguments) -> Option<RequestOutcome> {
    let drained = change(rt, |list| {
        let at = first_matching(
            list,
            message_arguments.comm(),
            message_arguments.peer,
            message_arguments.tag,
        )?;
        Some(list.remove(at))
    })?;
    Some(deliver(rt, drained, message_arguments))
}

/// Delivers a drained message by sending it from this process to itself.
///
/// The library thus converts types, detects truncation and sets the status as in any receive. The
/// send is started before the receive: if the receive is posted first, Open MPI 5.0 does not report
/// that a message from a process to itself is too long.
pub fn deliver(
    rt: &Runtime,
    drained: DrainedMessage,
    message_arguments: &MessageArguments,
) -> RequestOutcome {
    notify_sender(rt, &drained);
    let to_self = Peer {
        comm: world::own_comm(rt),
        rank: Worker(0),
        tag: 0,
    };
    let (mut status, count) = (EMPTY_STATUS, message_arguments.count);
    let datatype = real_datatype(rt, message_arguments.datatype());
    let rc = match InFlight::send(to_self, drained.data) {
        Ok(sent) => {
            let (to, own) = (message_arguments.buffer as *mut c_void, to_self.comm);
            // SAFETY: MPI requires the program's buffer, count and datatype to be valid. The
            // message is from this process to itself.
            let rc = unsafe { real::PMPI_Recv(to, count, datatype, 0, 0, own, &mut status) };
            // A failure is detected by the next call.
            let _ = sent.wait();
            rc
        }
        Err(error) => error.code(),
    };
    // The message was counted when it was drained, so this delivery is not counted.
    RequestOutcome {
        status: Status {
            source: drained.source,
            tag: drained.tag,
            ..status
        },
        rc,
        comm: Some(message_arguments.comm()),
    }
}
