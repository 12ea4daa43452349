//! Requests added to the table, freed, removed, and replaced at a rollback.

use super::attached_buffer::BufferUse;
use super::message_counts::{count_started, receiver};
use super::recipe_objects::share;
use super::request::{EMPTY_STATUS, MessageArguments, RequestKind, RequestState, done_state};
use super::request_borrows::table_mut;
use super::request_entries::{
    active, general, get_mut, index, is_active, keep, null_handle, release_real, set_companion,
};
use super::request_recipe::RequestRecipe;
use super::request_table::NULL;
use super::requests_by_age::Requests;
use super::synchronous;
use crate::Runtime;
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtDatatype, VirtRequest};
use crate::objects::comm::create::PendingDuplicate;
use crate::objects::datatype;
use crate::work_flags::{self, RESUMES};
use std::any::Any;
use std::ffi::c_int;
use understudy_mpi::real_types::{RealRequest, Status};

/// Replaces all requests by saved ones, which are not posted yet.
pub fn replace(rt: &Runtime, saved: Requests) {
    let mut table = rt.requests.table.borrow_mut();
    table.real_requests = vec![NULL; saved.index_end() as usize];
    table.requests = saved;
    synchronous::update_flag(&table);
    table.library_data.clear();
    table.unready.clear();
    if table.requests.blocking_calls.is_empty() {
        work_flags::clear(RESUMES);
    } else {
        work_flags::set(RESUMES);
    }
}

/// Adds a request and returns the program's handle.
///
/// The datatype of a request that may be posted once more is retained until its removal.
#[inline(always)]
pub fn add(
    rt: &Runtime,
    comm: VirtComm,
    kind: RequestKind,
    state: RequestState,
    real: RealRequest,
) -> VirtRequest {
    if let Some(datatype) = kind.datatype() {
        datatype::retain(rt, datatype);
    }
    rt.requests.table.borrow_mut().add(comm, kind, state, real)
}

/// Adds an active send, and counts its message.
#[inline(always)]
pub fn add_send(
    rt: &Runtime,
    kind: RequestKind,
    comm: VirtComm,
    (peer, tag): (c_int, c_int),
    real: RealRequest,
) -> VirtRequest {
    let worker = receiver(rt, comm, (peer, tag));
    let handle = {
        let table = &mut *rt.requests.table.borrow_mut();
        table.requests.count_sent(worker);
        table.add(comm, kind, RequestState::Active, real)
    };
    if matches!(kind, RequestKind::Synchronous) {
        synchronous::add_for(rt, handle, comm, peer, tag);
    }
    handle
}

#[inline(always)]
pub fn add_receive(
    rt: &Runtime,
    message_arguments: MessageArguments,
    state: RequestState,
    real: RealRequest,
) -> VirtRequest {
    add(
        rt,
        message_arguments.comm(),
        RequestKind::Receive(message_arguments),
        state,
        real,
    )
}

/// Adds an active non-blocking collective.
///
/// `reduces` is the datatype of a reduction, which the program may free before completion.
pub fn add_collective(
    rt: &Runtime,
    comm: VirtComm,
    reduces: Option<VirtDatatype>,
    real: RealRequest,
) -> VirtRequest {
    count_started(rt, share(rt, comm, 0));
    let kind = RequestKind::Collective(reduces.map(|datatype| datatype.0 as u64));
    add(rt, comm, kind, RequestState::Active, real)
}

/// Adds a request that creates a communicator, with a companion.
///
/// The companion broadcasts the communicator's `uid`, if that is necessary. `pending`, to which
/// the library writes, exists until both requests are complete.
pub fn add_duplicate(
    rt: &Runtime,
    comm: VirtComm,
    pending: Box<PendingDuplicate>,
    made: RealRequest,
    companion: Option<RealRequest>,
) -> VirtRequest {
    count_started(rt, share(rt, comm, 0));
    let kind = RequestKind::Duplicate(pending.index);
    let handle = add(rt, comm, kind, RequestState::Active, made);
    // A request without a companion would complete on the fast path, which does not update the
    // table of communicators.
    let companion = match companion {
        Some(companion) => add(rt, comm, kind, RequestState::Active, companion),
        None => add_done(rt, comm, kind, EMPTY_STATUS, SUCCESS),
    };
    set_companion(rt, handle, companion);
    keep(rt, handle, pending);
    handle
}

/// Completes the entry of the communicator with this index.
///
/// Does nothing while its creation or the broadcast of its number (`uid`) is incomplete.
pub fn finish_duplicate(rt: &Runtime, index: u32) {
    if !active(
        rt,
        |kind| matches!(kind, RequestKind::Duplicate(created) if *created == index),
    )
    .is_empty()
    {
        return;
    }
    let table = rt.requests.table.borrow();
    let mut pending = table
        .library_data
        .iter()
        .filter_map(|(_, library_data)| library_data.downcast_ref::<PendingDuplicate>());
    if let Some(pending) = pending.find(|pending| pending.index == index) {
        pending.finish(rt);
    }
}

/// Adds a request that has a recipe and is not started.
///
/// `library_data` contains the data that the library reads until the request is freed.
pub fn add_recorded(
    rt: &Runtime,
    recipe: RequestRecipe,
    real: RealRequest,
    library_data: Box<dyn Any + Send>,
) -> VirtRequest {
    recipe.retain(rt);
    let comm = recipe.comm();
    let number = {
        let recipes = &mut table_mut(rt).recipes;
        let number = recipes.last_key_value().map_or(0, |(last, _)| last + 1);
        recipes.insert(number, recipe);
        number
    };
    let handle = add(
        rt,
        comm,
        RequestKind::Recorded(number),
        RequestState::Inactive,
        real,
    );
    keep(rt, handle, library_data);
    handle
}

/// Adds a request that is complete.
pub fn add_done(
    rt: &Runtime,
    comm: VirtComm,
    kind: RequestKind,
    status: Status,
    rc: c_int,
) -> VirtRequest {
    add(rt, comm, kind, done_state(status, rc), NULL)
}

/// Adds a buffered send; the program has no handle of its request.
///
/// `copy` is the copy of the message, which the library reads until the send is complete.
pub fn add_buffered(
    rt: &Runtime,
    comm: VirtComm,
    real: RealRequest,
    buffer_use: BufferUse,
    copy: Box<dyn Any + Send>,
) {
    let mut handle = add(rt, comm, RequestKind::Send, RequestState::Active, real);
    keep(rt, handle, copy);
    if let Some(mut request) = index(rt, handle).and_then(|index| get_mut(rt, index)) {
        request.buffered = Some(buffer_use);
    }
    free(rt, &mut handle);
}

/// Removes a request that is complete or inactive, with its companion.
pub fn remove(rt: &Runtime, index: u32) {
    let mut table = rt.requests.table.borrow_mut();
    let Some(request) = table.requests.remove(index) else {
        return;
    };
    if !table.library_data.is_empty() {
        table.library_data.retain(|(owner, _)| *owner != index);
    }
    table.unready.retain(|(owner, _)| *owner != index);
    let recipe = match request.kind {
        RequestKind::Recorded(number) => table.requests.recipes.remove(&number),
        _ => None,
    };
    drop(table);
    if let Some(recipe) = recipe {
        recipe.release(rt);
    }
    if let Some(datatype) = request.kind.datatype() {
        datatype::release(rt, datatype);
    }
    if let Some(other) = request.companion {
        remove(rt, other);
    }
}

/// Frees a request (`MPI_Request_free`).
///
/// An active request is kept until it is complete, and a generalized one until its functions have
/// been called.
pub fn free(rt: &Runtime, handle: &mut VirtRequest) {
    let Some(index) = index(rt, *handle) else {
        return;
    };
    if is_active(rt, index) || general(rt, index).is_some() {
        if let Some(mut request) = get_mut(rt, index) {
            request.is_freed = true;
        }
    } else {
        release_real(rt, index);
        remove(rt, index);
    }
    *handle = null_handle(rt);
}
