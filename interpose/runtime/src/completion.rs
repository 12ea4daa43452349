//! Completion of requests: tests, waits, and the outcome that the program gets.
//!
//! A failure during these calls starts a recovery. Every poll also advances a checkpoint that is
//! under way.
#![allow(unsafe_code)]

mod generalized;
mod joint_completion;
mod orphans;

use crate::Runtime;
use crate::arch::{self, Rewound};
use crate::control_messages::tag;
use crate::errors::{ERR_OTHER, SUCCESS};
use crate::generated::real;
use crate::handles::{VirtComm, VirtRequest};
use crate::requests::{
    self, EMPTY_STATUS, RequestKind, RequestOutcome, RequestState, SavedStatus, add, done_state,
    get, index, is_active, null_handle, remove, set_state, with_real,
};
use crate::{checkpoint, control_messages, journal, recovery, work_flags, world};
pub use joint_completion::{CompletionCall, MAX_TOGETHER, ManyResult, complete_together};
pub use orphans::{reap_orphan, reap_orphans};
use std::ffi::c_int;
use understudy_mpi::real_types::{PROC_NULL, RealRequest, Status};
use understudy_mpi::{self as mpi, call};

/// Message for a failed exchange about synchronous sends.
const EXCHANGE_FAILED: &str = "receivers cannot acknowledge synchronous sends";

/// Counts a message that has arrived, also in the journal.
#[inline]
pub fn count_received(rt: &Runtime, comm: VirtComm, status: &Status) {
    journal::record_received(rt, status.bytes);
    requests::count_received(rt, comm, status);
}

/// Returns an error for a receive that the library has cancelled by itself, otherwise `rc`.
#[inline]
pub fn code_of_completion(rt: &Runtime, rc: c_int, status: &Status) -> c_int {
    match rc == SUCCESS && requests::is_cancelled_by_library(rt, status) {
        true => ERR_OTHER,
        false => rc,
    }
}

/// Tests an active request once; its state is `Done` afterwards if it has completed.
fn test(rt: &Runtime, index: u32) -> Result<bool, Rewound> {
    let other = get(rt, index).and_then(|request| request.companion);
    if let Some(other) = other
        && is_active(rt, other)
    {
        test(rt, other)?;
    }
    match get(rt, index).map(|request| request.state) {
        Some(RequestState::Active) => test_real(rt, index)?,
        // The library is not called for an open request, so the library cannot report a failure
        // here.
        Some(RequestState::Open) if call::is_over() => drop(recovery::check(rt, call::ABANDONED)?),
        Some(RequestState::Open) => {
            if requests::synchronous::has_any() {
                recovery::check_own(rt, receive_notices(rt), EXCHANGE_FAILED)?;
            }
            flush(rt, index)?;
        }
        _ => {}
    }
    Ok(!is_active(rt, index))
}

/// Completes a flush request if all messages in its buffer have been sent.
fn flush(rt: &Runtime, index: u32) -> Result<(), Rewound> {
    if let Some(messages) = requests::flushed_by(rt, index)
        && test_all(rt, messages)?.is_empty()
    {
        set_state(rt, index, done_state(EMPTY_STATUS, SUCCESS));
    }
    Ok(())
}

/// Receives notices about synchronous sends whose drained messages the program has received.
fn receive_notices(rt: &Runtime) -> mpi::Result<()> {
    while let Some((from, bytes)) =
        control_messages::next(world::private(rt), tag::DRAINED_RECEIVED)?
    {
        let number = bytes.try_into().map_err(|_| mpi::Error::INTERN)?;
        requests::synchronous::complete_received(rt, u64::from_ne_bytes(number), from);
    }
    Ok(())
}

fn test_real(rt: &Runtime, index: u32) -> Result<(), Rewound> {
    let (mut status, mut flag) = (EMPTY_STATUS, 0);
    // SAFETY: a real request that is active.
    let rc = with_real(rt, index, |request| unsafe {
        real::PMPI_Test(request, &mut flag, &mut status)
    });
    let rc = recovery::check(rt, code_of_completion(rt, rc, &status))?;
    if flag != 0 || rc != SUCCESS {
        record_completion(rt, index, status, rc);
    }
    Ok(())
}

/// Records the outcome of a request that has completed in the library.
///
/// A received message is counted.
fn record_completion(rt: &Runtime, index: u32, status: Status, rc: c_int) {
    let kind = get(rt, index).map(|request| request.kind);
    if let Some(
        RequestKind::Receive(message_arguments) | RequestKind::PersistentReceive(message_arguments),
    ) = kind
    {
        // See `requests::completion_fast_path`.
        if message_arguments.peer != PROC_NULL {
            count_received(rt, message_arguments.comm(), &status);
        }
    }
    set_state(rt, index, done_state(status, rc));
    if let Some(RequestKind::Duplicate(created)) = kind
        && rc == SUCCESS
    {
        requests::finish_duplicate(rt, created);
    }
}

/// Returns the outcome of a request that is `Done` or inactive.
fn outcome(rt: &Runtime, index: u32) -> RequestOutcome {
    let general = requests::general(rt, index);
    let Some(request) = get(rt, index) else {
        return RequestOutcome::EMPTY;
    };
    if let (Some(general), RequestState::Done { .. }) = (general, request.state) {
        let comm = request.comm();
        drop(request);
        return generalized::query(general, comm);
    }
    let of_companion = request.companion.map(|companion| outcome(rt, companion));
    let RequestState::Done {
        status:
            SavedStatus {
                source,
                tag,
                error,
                cancelled,
                bytes,
            },
        rc,
    } = request.state
    else {
        return RequestOutcome::EMPTY;
    };
    let rc = if rc == SUCCESS {
        of_companion.map_or(SUCCESS, |outcome| outcome.rc)
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
    RequestOutcome {
        status,
        rc,
        comm: Some(request.comm()),
    }
}

/// Completes a request that is `Done` or inactive for the program.
///
/// A persistent request becomes inactive; any other request is removed.
fn take(rt: &Runtime, index: u32, handle: &mut VirtRequest) -> RequestOutcome {
    let mut outcome = outcome(rt, index);
    if let Some(general) = requests::general(rt, index) {
        outcome.rc = generalized::free(general, outcome.rc);
    }
    let stays = get(rt, index).is_some_and(|request| request.is_persistent());
    report_to_journal(rt, index, &outcome.status, stays);
    if stays {
        set_state(rt, index, RequestState::Inactive);
    } else {
        remove(rt, index);
        *handle = null_handle(rt);
    }
    outcome
}

/// Waits for one request.
#[inline]
pub fn wait(rt: &Runtime, handle: &mut VirtRequest) -> Result<RequestOutcome, Rewound> {
    wait_with(rt, handle, || Ok(()))
}

/// Waits for one request, and calls `meanwhile` between two polls.
#[inline]
pub fn wait_with(
    rt: &Runtime,
    handle: &mut VirtRequest,
    meanwhile: impl Fn() -> Result<(), Rewound>,
) -> Result<RequestOutcome, Rewound> {
    loop {
        // While a work flag is set, the request is polled, since each poll also advances a
        // checkpoint or an agreement on a cut.
        if !work_flags::is_any_set()
            && let Some((index, mut request)) = requests::completable(rt, *handle)
        {
            let mut status = EMPTY_STATUS;
            arch::mark_blocking_wait();
            // SAFETY: a real request that is active.
            let rc = unsafe { real::PMPI_Wait(&mut request, &mut status) };
            let rc = recovery::check(rt, code_of_completion(rt, rc, &status))?;
            return Ok(finish_alone(rt, (index, request), handle, status, rc));
        }
        if let Some(completed) = poll(rt, handle)? {
            return Ok(completed);
        }
        meanwhile()?;
    }
}

/// Tests one request (MPI_Test); `None` if it has not completed.
#[inline]
pub fn poll(rt: &Runtime, handle: &mut VirtRequest) -> Result<Option<RequestOutcome>, Rewound> {
    let Some((index, mut request)) = requests::completable(rt, *handle) else {
        return poll_with_record(rt, handle);
    };
    let (mut status, mut flag) = (EMPTY_STATUS, 0);
    // SAFETY: a real request that is active.
    let rc = unsafe { real::PMPI_Test(&mut request, &mut flag, &mut status) };
    let rc = recovery::check(rt, code_of_completion(rt, rc, &status))?;
    if flag == 0 && rc == SUCCESS {
        checkpoint::poll(rt)?;
        return Ok(None);
    }
    Ok(Some(finish_alone(rt, (index, request), handle, status, rc)))
}

/// Completes a request of [`requests::completable`] that the library has completed.
#[inline]
fn finish_alone(
    rt: &Runtime,
    (index, request): (u32, RealRequest),
    handle: &mut VirtRequest,
    status: Status,
    rc: c_int,
) -> RequestOutcome {
    if rc != SUCCESS {
        return finish_failed(rt, (index, request), handle, status, rc);
    }
    if arch::is_recording() {
        report_completion(rt, index, &status);
    }
    requests::complete_one(rt, handle, &status);
    RequestOutcome {
        status,
        rc,
        comm: None,
    }
}

#[cold]
#[inline(never)]
fn finish_failed(
    rt: &Runtime,
    (index, request): (u32, RealRequest),
    handle: &mut VirtRequest,
    status: Status,
    rc: c_int,
) -> RequestOutcome {
    requests::set_real(rt, index, request);
    record_completion(rt, index, status, rc);
    take(rt, index, handle)
}

/// Tests a request that the fast path cannot complete.
#[inline(never)]
fn poll_with_record(
    rt: &Runtime,
    handle: &mut VirtRequest,
) -> Result<Option<RequestOutcome>, Rewound> {
    let Some(index) = index(rt, *handle) else {
        return Ok(Some(RequestOutcome::EMPTY));
    };
    if is_active(rt, index) && !test(rt, index)? {
        checkpoint::poll(rt)?;
        return Ok(None);
    }
    Ok(Some(take(rt, index, handle)))
}

/// Returns true if a request has completed; its record stays.
pub fn is_complete(rt: &Runtime, handle: VirtRequest) -> Result<bool, Rewound> {
    match index(rt, handle) {
        Some(index) if is_active(rt, index) => test(rt, index),
        _ => Ok(true),
    }
}

/// Returns the return code of a request that has completed.
pub fn code(rt: &Runtime, handle: VirtRequest) -> c_int {
    index(rt, handle).map_or(SUCCESS, |index| outcome(rt, index).rc)
}

/// Returns the outcome of a request, whose record stays (MPI_Request_get_status).
///
/// `None` if the request has not completed.
pub fn peek(rt: &Runtime, handle: VirtRequest) -> Result<Option<RequestOutcome>, Rewound> {
    let Some(index) = index(rt, handle) else {
        return Ok(Some(RequestOutcome::EMPTY));
    };
    if is_active(rt, index) && !test(rt, index)? {
        return Ok(None);
    }
    let outcome = outcome(rt, index);
    report_to_journal(rt, index, &outcome.status, true);
    Ok(Some(outcome))
}

/// Cancels an active request (MPI_Cancel); returns the return code.
///
/// A cancelled receive completes, and its completion is recorded, so that the receive is not posted
/// once more after a rollback. Sends and flushes continue.
pub fn cancel(rt: &Runtime, index: u32) -> Result<c_int, Rewound> {
    if let Some(general) = requests::general(rt, index) {
        return Ok(generalized::cancel(general, !is_active(rt, index)));
    }
    let continues =
        |kind: &RequestKind| kind.is_plain_send() || matches!(kind, RequestKind::Flush(_));
    let continues = get(rt, index).is_some_and(|request| continues(&request.kind));
    let rc = match continues {
        // The send continues, as MPI allows (4.1, 3.8.4) and Open MPI does: a message that has been
        // counted as sent must arrive.
        true => SUCCESS,
        false => {
            requests::record_cancellation(rt);
            // SAFETY: an active real request.
            with_real(rt, index, |request| unsafe { real::PMPI_Cancel(request) })
        }
    };
    test(rt, index)?;
    Ok(rc)
}

/// Cancels and completes a receive of a blocking call that has failed.
///
/// The receive's buffer is not written later. A message that has already arrived is lost.
pub fn abandon(rt: &Runtime, handle: &mut VirtRequest) -> Result<(), Rewound> {
    if let Some(index) = index(rt, *handle).filter(|&index| is_active(rt, index)) {
        cancel(rt, index)?;
    }
    wait(rt, handle).map(drop)
}

/// Reports a completing request to the journal.
#[cold]
#[inline(never)]
fn report_completion(rt: &Runtime, index: u32, status: &Status) {
    let Some((kind, stays)) = get(rt, index)
        .filter(|request| request.state == RequestState::Active)
        .map(|request| (request.kind, request.is_persistent()))
    else {
        return;
    };
    if let RequestKind::Receive(_) | RequestKind::PersistentReceive(_) = kind {
        journal::record_received(rt, status.bytes);
    }
    report_to_journal(rt, index, status, stays);
}

/// Reports to the journal that the data of a request are complete.
#[inline]
fn report_to_journal(rt: &Runtime, index: u32, status: &Status, stays: bool) {
    let is_receive =
        || get(rt, index).is_some_and(|request| request.kind.message_arguments().is_some());
    journal::record_completion(rt, index, || is_receive().then_some(status.bytes), stays);
}

/// Runs a blocking operation as its non-blocking variant.
///
/// `start` starts the real request, which is tested until it completes. The tests also advance the
/// checkpoint under way.
pub fn run_nonblocking(
    rt: &Runtime,
    comm: VirtComm,
    kind: RequestKind,
    start: impl FnOnce(&mut RealRequest) -> c_int,
) -> Result<RequestOutcome, Rewound> {
    let mut request = RealRequest(std::ptr::null_mut());
    let rc = recovery::check(rt, start(&mut request))?;
    if rc != SUCCESS {
        return Ok(RequestOutcome {
            status: EMPTY_STATUS,
            rc,
            comm: Some(comm),
        });
    }
    let mut handle = add(rt, comm, kind, RequestState::Active, request);
    wait(rt, &mut handle)
}

/// Tests these requests once; returns those that are still active.
pub fn test_all(rt: &Runtime, mut pending: Vec<u32>) -> Result<Vec<u32>, Rewound> {
    let mut active = Vec::with_capacity(pending.len());
    for index in pending.drain(..) {
        if !test(rt, index)? {
            active.push(index);
        }
    }
    Ok(active)
}
