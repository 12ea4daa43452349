//! The end of requests: tests, waits, and what the program is told then. A failure that is met meanwhile leads to recovery, and every
//! look helps a checkpoint along that is under way.
#![allow(unsafe_code)]

use crate::arch::Rewound;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles::{VirtComm, VirtRequest};
use crate::objects::comm;
use crate::requests::{
    self, EMPTY, Kind, Outcome, State, add, done, get, index, is_active, null_handle, release_real, remove, set_state,
    with_real,
};
use crate::{checkpoint, journal, recovery};
use std::ffi::c_int;
use understudy_mpi::real_types::{RealRequest, Status};

/// Counts a message that has arrived.
#[inline]
pub fn count_received(comm: VirtComm, status: &Status) {
    journal::received(status.bytes);
    if status.cancelled == 0
        && let Some(worker) = comm::worker_of(comm, status.source)
        && let Some(received) = requests::table_mut().received.get_mut(worker as usize)
    {
        *received += 1;
    }
}

/// Tests an active request once. Afterwards its state is `Done` if it has ended.
fn test(index: u32) -> Result<bool, Rewound> {
    let other = get(index).and_then(|request| request.other);
    if let Some(other) = other
        && is_active(other)
    {
        test(other)?;
    }
    if get(index).is_some_and(|request| request.state == State::Active) {
        test_real(index)?;
    }
    Ok(!is_active(index))
}

fn test_real(index: u32) -> Result<(), Rewound> {
    if let Some((status, rc)) = ask(index, How::Test)? {
        set_state(index, done(status, rc));
    }
    Ok(())
}

/// How to ask for a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Test,
    /// Until it has ended.
    Wait,
}

/// Tests the real request, or waits for it. If it has ended, a message is counted as received.
#[inline]
fn ask(index: u32, how: How) -> Result<Option<(Status, c_int)>, Rewound> {
    let mut status = EMPTY;
    let mut flag = c_int::from(how == How::Wait);
    // SAFETY: a real request that is active.
    let rc = with_real(index, |request| unsafe {
        match how {
            How::Test => real::PMPI_Test(request, &mut flag, &mut status),
            How::Wait => real::PMPI_Wait(request, &mut status),
        }
    });
    let rc = recovery::check(rc)?;
    if flag == 0 && rc == SUCCESS {
        return Ok(None);
    }
    let kind = get(index).map(|request| request.kind);
    if let Some(Kind::Receive(envelope) | Kind::PersistentReceive(envelope)) = kind {
        count_received(envelope.comm(), &status);
    }
    Ok(Some((status, rc)))
}

/// The outcome of a request that is `Done` (or inactive).
fn outcome(index: u32) -> Outcome {
    let Some(request) = get(index) else {
        return Outcome::NOTHING;
    };
    let second = request.other.map(outcome);
    let State::Done {
        status: (source, tag, error, cancelled, bytes),
        rc,
    } = request.state
    else {
        return Outcome::NOTHING;
    };
    let rc = if rc == SUCCESS {
        second.map_or(SUCCESS, |second| second.rc)
    } else {
        rc
    };
    let status = Status {
        source,
        tag,
        error,
        cancelled,
        bytes: bytes as usize,
    };
    Outcome {
        status,
        rc,
        comm: Some(request.comm()),
    }
}

/// Takes the outcome of a request that is `Done` (or inactive): a persistent one becomes inactive, another one is gone.
fn take(index: u32, handle: &mut VirtRequest) -> Outcome {
    let outcome = outcome(index);
    let stays = get(index).is_some_and(|request| request.is_persistent());
    tell_journal(index, &outcome.status, stays);
    if stays {
        set_state(index, State::Inactive);
    } else {
        remove(index);
        *handle = null_handle();
    }
    outcome
}

/// Waits for one request (MPI_Wait).
pub fn wait(handle: &mut VirtRequest) -> Result<Outcome, Rewound> {
    let Some(index) = index(*handle) else {
        return Ok(Outcome::NOTHING);
    };
    if is_alone(index) {
        loop {
            // A checkpoint under way wants to be helped along meanwhile.
            let how = if checkpoint::is_active() { How::Test } else { How::Wait };
            if let Some(ended) = end_alone(index, handle, how)? {
                return Ok(ended);
            }
            checkpoint::poll()?;
        }
    }
    while is_active(index) {
        if test(index)? {
            break;
        }
        checkpoint::poll()?;
    }
    Ok(take(index, handle))
}

/// Whether it is like most requests, for which there is a short way: active, alone, and gone when it has ended.
#[inline]
fn is_alone(index: u32) -> bool {
    get(index)
        .is_some_and(|request| request.state == State::Active && request.other.is_none() && !request.is_persistent())
}

/// Asks for a request that [`is_alone`].
#[inline]
fn end_alone(index: u32, handle: &mut VirtRequest, how: How) -> Result<Option<Outcome>, Rewound> {
    let Some((status, rc)) = ask(index, how)? else {
        return Ok(None);
    };
    let comm = get(index).map(|request| request.comm());
    tell_journal(index, &status, false);
    remove(index);
    *handle = null_handle();
    Ok(Some(Outcome { status, rc, comm }))
}

/// Tests one request (MPI_Test); `None`: not yet.
pub fn poll(handle: &mut VirtRequest) -> Result<Option<Outcome>, Rewound> {
    let Some(index) = index(*handle) else {
        return Ok(Some(Outcome::NOTHING));
    };
    if is_alone(index) {
        let ended = end_alone(index, handle, How::Test)?;
        if ended.is_none() {
            checkpoint::poll()?;
        }
        return Ok(ended);
    }
    if is_active(index) && !test(index)? {
        checkpoint::poll()?;
        return Ok(None);
    }
    Ok(Some(take(index, handle)))
}

/// Whether it has ended, leaving it as it is (MPI_Request_get_status).
pub fn peek(handle: VirtRequest) -> Result<Option<Outcome>, Rewound> {
    let Some(index) = index(handle) else {
        return Ok(Some(Outcome::NOTHING));
    };
    if is_active(index) && !test(index)? {
        return Ok(None);
    }
    let outcome = outcome(index);
    tell_journal(index, &outcome.status, true);
    Ok(Some(outcome))
}

/// Cancels an active request (MPI_Cancel), with the return code. A receive that could be cancelled has ended then, which must be
/// on record: it is not to be posted again after a rollback.
pub fn cancel(index: u32) -> Result<c_int, Rewound> {
    // SAFETY: an active real request.
    let rc = with_real(index, |request| unsafe { real::PMPI_Cancel(request) });
    test(index)?;
    Ok(rc)
}

/// Ends a receive that nobody will wait for, so that nothing is written late; its message, if it has one already, is lost.
pub fn abandon(handle: &mut VirtRequest) -> Result<(), Rewound> {
    if let Some(index) = index(*handle).filter(|&index| is_active(index)) {
        cancel(index)?;
    }
    wait(handle).map(drop)
}

/// What the request has written may be looked at from now on.
#[inline]
fn tell_journal(index: u32, status: &Status, stays: bool) {
    let is_receive = || get(index).is_some_and(|request| request.kind.envelope().is_some());
    journal::ended(index, || is_receive().then_some(status.bytes), stays);
}

/// Runs a blocking operation as its non-blocking twin: `start` makes the real request; it is tested until it ends, so that
/// the checkpoint under way goes on meanwhile.
pub fn run(comm: VirtComm, kind: Kind, start: impl FnOnce(&mut RealRequest) -> c_int) -> Result<Outcome, Rewound> {
    let mut request = RealRequest(std::ptr::null_mut());
    let rc = recovery::check(start(&mut request))?;
    if rc != SUCCESS {
        return Ok(Outcome {
            status: EMPTY,
            rc,
            comm: Some(comm),
        });
    }
    let mut handle = add(comm, kind, State::Active, request);
    wait(&mut handle)
}

/// Tests all orphans and removes those that have ended.
pub fn reap_orphans() -> Result<(), Rewound> {
    for index in requests::indices() {
        if get(index).is_some_and(|request| request.orphan) && (!is_active(index) || test(index)?) {
            release_real(index);
            remove(index);
        }
    }
    Ok(())
}

/// Tests these requests once; returns those that are still active.
pub fn test_all(mut pending: Vec<u32>) -> Result<Vec<u32>, Rewound> {
    let mut left = Vec::with_capacity(pending.len());
    for index in pending.drain(..) {
        if !test(index)? {
            left.push(index);
        }
    }
    Ok(left)
}
