//! The end of requests: tests, waits, and what the program is told then. A failure that is met meanwhile leads to recovery, and every
//! look helps a checkpoint along that is under way.
#![allow(unsafe_code)]

mod general;

use crate::arch::{self, Rewound};
use crate::errors::{ERR_IN_STATUS, ERR_OTHER, ERR_PENDING, SUCCESS};
use crate::generated::real;
use crate::handles::{VirtComm, VirtRequest};
use crate::requests::{
    self, EMPTY, Kind, Outcome, State, add, done, get, index, is_active, null_handle, release_real, remove, set_state,
    with_real,
};
use crate::{attention, checkpoint, copies, journal, recovery};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use understudy_mpi::call;
use understudy_mpi::real_types::{RealRequest, Status};

/// Counts a message that has arrived, and lets the journal know.
#[inline]
pub fn count_received(comm: VirtComm, status: &Status) {
    journal::received(status.bytes);
    requests::count_received(comm, status);
}

/// Tests an active request once. Afterwards its state is `Done` if it has ended.
fn test(index: u32) -> Result<bool, Rewound> {
    let other = get(index).and_then(|request| request.other);
    if let Some(other) = other
        && is_active(other)
    {
        test(other)?;
    }
    match get(index).map(|request| request.state) {
        Some(State::Active) => test_real(index)?,
        // Nobody calls the library meanwhile, which would tell of a failure.
        Some(State::Open) if call::is_over() => drop(recovery::check(call::ABANDONED)?),
        _ => {}
    }
    Ok(!is_active(index))
}

fn test_real(index: u32) -> Result<(), Rewound> {
    let (mut status, mut flag) = (EMPTY, 0);
    // SAFETY: a real request that is active.
    let rc = with_real(index, |request| unsafe {
        real::PMPI_Test(request, &mut flag, &mut status)
    });
    let rc = recovery::check(rc)?;
    if flag != 0 || rc != SUCCESS {
        has_ended(index, status, rc);
    }
    Ok(())
}

/// Notes the outcome of a request that has ended in the library. A message is counted as received.
fn has_ended(index: u32, status: Status, rc: c_int) {
    let kind = get(index).map(|request| request.kind);
    if let Some(Kind::Receive(envelope) | Kind::PersistentReceive(envelope)) = kind {
        count_received(envelope.comm(), &status);
    }
    set_state(index, done(status, rc));
    if let Some(Kind::Duplicate(made)) = kind
        && rc == SUCCESS
    {
        requests::finish_duplicate(made);
    }
}

/// The outcome of a request that is `Done` (or inactive).
fn outcome(index: u32) -> Outcome {
    let general = requests::general(index);
    let Some(request) = get(index) else {
        return Outcome::NOTHING;
    };
    if let (Some(general), State::Done { .. }) = (general, request.state) {
        let comm = request.comm();
        drop(request);
        return general::query(general, comm);
    }
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
    let mut outcome = outcome(index);
    if let Some(general) = requests::general(index) {
        outcome.rc = general::free(general, outcome.rc);
    }
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

/// Waits for one request.
#[inline]
pub fn wait(handle: &mut VirtRequest) -> Result<Outcome, Rewound> {
    wait_with(handle, || Ok(()))
}

/// The same, with something to be done between two looks.
#[inline]
pub fn wait_with(handle: &mut VirtRequest, meanwhile: impl Fn() -> Result<(), Rewound>) -> Result<Outcome, Rewound> {
    loop {
        // A checkpoint under way wants to be helped along meanwhile, and so does an agreement on one.
        if !attention::is_on()
            && let Some((index, mut request)) = requests::alone(*handle)
        {
            let mut status = EMPTY;
            // SAFETY: a real request that is active.
            let rc = recovery::check(unsafe { real::PMPI_Wait(&mut request, &mut status) })?;
            return Ok(end((index, request), handle, status, rc));
        }
        if let Some(ended) = poll(handle)? {
            return Ok(ended);
        }
        meanwhile()?;
    }
}

/// Tests one request (MPI_Test); `None`: not yet.
#[inline]
pub fn poll(handle: &mut VirtRequest) -> Result<Option<Outcome>, Rewound> {
    let Some((index, mut request)) = requests::alone(*handle) else {
        return poll_on_record(handle);
    };
    let (mut status, mut flag) = (EMPTY, 0);
    // SAFETY: a real request that is active.
    let rc = recovery::check(unsafe { real::PMPI_Test(&mut request, &mut flag, &mut status) })?;
    if flag == 0 && rc == SUCCESS {
        checkpoint::poll()?;
        return Ok(None);
    }
    Ok(Some(end((index, request), handle, status, rc)))
}

/// The outcome of a request that was [`requests::alone`], and what has become of the real one.
#[inline]
fn end((index, request): (u32, RealRequest), handle: &mut VirtRequest, status: Status, rc: c_int) -> Outcome {
    if rc != SUCCESS {
        return end_badly((index, request), handle, status, rc);
    }
    if arch::is_recording() {
        tell_end(index, &status);
    }
    requests::end(handle, &status);
    Outcome { status, rc, comm: None }
}

#[cold]
#[inline(never)]
fn end_badly((index, request): (u32, RealRequest), handle: &mut VirtRequest, status: Status, rc: c_int) -> Outcome {
    requests::set_real(index, request);
    has_ended(index, status, rc);
    take(index, handle)
}

/// Of any other request.
#[inline(never)]
fn poll_on_record(handle: &mut VirtRequest) -> Result<Option<Outcome>, Rewound> {
    let Some(index) = index(*handle) else {
        return Ok(Some(Outcome::NOTHING));
    };
    if is_active(index) && !test(index)? {
        checkpoint::poll()?;
        return Ok(None);
    }
    Ok(Some(take(index, handle)))
}

/// The most requests that one call of the library is asked for.
pub const TOGETHER: usize = 64;

/// How to ask for many.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Whether all have ended.
    Test,
    /// Until all have ended.
    Wait,
}

/// What has become of many requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// All have ended, and the statuses are there.
    Ended,
    /// Some have not; nothing has changed.
    Pending,
    /// They are to be asked for one by one.
    OneByOne,
}

/// Asks for at most [`TOGETHER`] requests in one call of the library, if there is a short way to the end of each.
///
/// # Safety
/// `statuses` must be null or have room for as many.
pub unsafe fn end_together(handles: &mut [VirtRequest], statuses: *mut Status, how: How) -> Result<Together, Rewound> {
    if copies::is_pending() {
        return Ok(Together::OneByOne);
    }
    let mut room = [const { MaybeUninit::uninit() }; TOGETHER];
    let Some(reals) = requests::each_alone(handles, &mut room) else {
        return Ok(Together::OneByOne);
    };
    let mut own = [const { MaybeUninit::<Status>::uninit() }; TOGETHER];
    let place = if statuses.is_null() {
        own.as_mut_ptr().cast()
    } else {
        statuses
    };
    let (count, mut flag) = (reals.len() as c_int, 1);
    // SAFETY: real requests, which stay where they are, and as many statuses.
    let rc = unsafe {
        match how {
            How::Test => real::PMPI_Testall(count, reals.as_mut_ptr(), &mut flag, place),
            How::Wait => real::PMPI_Waitall(count, reals.as_mut_ptr(), place),
        }
    };
    if rc == SUCCESS && flag == 0 {
        return Ok(Together::Pending);
    }
    if rc != SUCCESS && rc != ERR_IN_STATUS {
        recovery::check(rc)?;
        return Ok(Together::OneByOne);
    }
    // SAFETY: the library has written as many statuses as there are requests.
    let statuses = unsafe { std::slice::from_raw_parts(place, reals.len()) };
    if rc == ERR_IN_STATUS {
        note_ends(handles, reals, statuses)?;
        return Ok(Together::OneByOne);
    }
    if arch::is_recording() {
        let indices = handles.iter().map(|&handle| index(handle));
        indices
            .zip(statuses)
            .for_each(|(index, status)| index.into_iter().for_each(|index| tell_end(index, status)));
    }
    requests::end_all(handles, statuses);
    Ok(Together::Ended)
}

/// Some have failed, and others may be under way still: notes what has become of each.
#[cold]
#[inline(never)]
fn note_ends(handles: &[VirtRequest], reals: &[RealRequest], statuses: &[Status]) -> Result<(), Rewound> {
    for ((&handle, &real), &status) in handles.iter().zip(reals).zip(statuses) {
        // The library may have codes of its own there.
        let rc = if status.error < SUCCESS {
            ERR_OTHER
        } else {
            status.error
        };
        if let Some(index) = index(handle).filter(|&index| is_active(index) && rc != ERR_PENDING) {
            recovery::check(rc)?;
            requests::set_real(index, real);
            has_ended(index, status, rc);
        }
    }
    Ok(())
}

/// Whether it has ended, leaving it as it is.
pub fn has_come(handle: VirtRequest) -> Result<bool, Rewound> {
    match index(handle) {
        Some(index) if is_active(index) => test(index),
        _ => Ok(true),
    }
}

/// The return code of a request that has ended.
pub fn code(handle: VirtRequest) -> c_int {
    index(handle).map_or(SUCCESS, |index| outcome(index).rc)
}

/// The same with its outcome (MPI_Request_get_status).
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
    if let Some(general) = requests::general(index) {
        return Ok(general::cancel(general, !is_active(index)));
    }
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

/// A request is about to end in which the journal may be interested.
#[cold]
#[inline(never)]
fn tell_end(index: u32, status: &Status) {
    let Some((kind, stays)) = get(index)
        .filter(|request| request.state == State::Active)
        .map(|request| (request.kind, request.is_persistent()))
    else {
        return;
    };
    if let Kind::Receive(_) | Kind::PersistentReceive(_) = kind {
        journal::received(status.bytes);
    }
    tell_journal(index, status, stays);
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
            if let Some(general) = requests::general(index) {
                general::free(general, SUCCESS);
            }
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
