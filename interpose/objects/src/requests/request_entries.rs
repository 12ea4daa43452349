//! Entries of requests: queried, changed, passed to the library.
#![allow(unsafe_code)]

use super::request::{GeneralizedFunctions, Request, RequestKind, RequestState};
use super::request_borrows::{table, table_mut};
use super::request_recipe::RequestRecipe;
use super::request_table::NULL;
use crate::Runtime;
use crate::generated::{HandleKind, real};
use crate::handles::{VirtComm, VirtRequest, created_index};
use crate::objects::lookup::PredefinedHandle;
use std::any::Any;
use std::cell::{Cell, Ref, RefMut};
use understudy_mpi::real_types::RealRequest;

#[inline]
pub fn null_handle(rt: &Runtime) -> VirtRequest {
    static NULL_HANDLE: PredefinedHandle = PredefinedHandle::new("ompi_request_null");
    VirtRequest(NULL_HANDLE.get(rt))
}

/// Returns the request recipe with this number.
pub fn recipe(rt: &Runtime, number: u64) -> Option<Ref<'_, RequestRecipe>> {
    Ref::filter_map(table(rt), |table| table.recipes.get(&number)).ok()
}

/// True if the program has requests on a communicator.
pub fn has_requests_on(rt: &Runtime, comm: VirtComm) -> bool {
    table(rt)
        .iter()
        .any(|(_, request)| request.comm == comm.0 as u64)
}

/// Keeps data until a request is complete, since the real library has their address.
pub fn keep(rt: &Runtime, handle: VirtRequest, library_data: Box<dyn Any + Send>) {
    if let Some(index) = index(rt, handle) {
        keep_for(rt, index, library_data);
    }
}

/// Keeps data until the request with this index is complete.
pub fn keep_for(rt: &Runtime, index: u32, library_data: Box<dyn Any + Send>) {
    rt.requests
        .table
        .borrow_mut()
        .library_data
        .push((index, library_data));
}

/// Makes `companion`, whose handle the program does not get, the companion of a request.
pub fn set_companion(rt: &Runtime, request: VirtRequest, companion: VirtRequest) {
    let companion = index(rt, companion);
    if let Some(mut request) = index(rt, request).and_then(|index| get_mut(rt, index)) {
        request.companion = companion;
    }
}

/// Returns the index of an existing request.
///
/// `None` for `MPI_REQUEST_NULL` and invalid handles.
#[inline]
pub fn index(rt: &Runtime, handle: VirtRequest) -> Option<u32> {
    created_index(HandleKind::Request, handle.0).filter(|&index| table(rt).get(index).is_some())
}

/// Returns the request with this index.
#[inline]
pub fn get(rt: &Runtime, index: u32) -> Option<Ref<'_, Request>> {
    Ref::filter_map(table(rt), |table| table.get(index)).ok()
}

/// Borrows the request with this index to change it.
#[inline]
pub fn get_mut(rt: &Runtime, index: u32) -> Option<RefMut<'_, Request>> {
    RefMut::filter_map(table_mut(rt), |table| table.get_mut(index)).ok()
}

/// Sets the state of a request.
pub fn set_state(rt: &Runtime, index: u32, state: RequestState) {
    if let Some(mut request) = get_mut(rt, index) {
        request.state = state;
    }
}

pub fn real_of(rt: &Runtime, index: u32) -> RealRequest {
    rt.requests
        .table
        .borrow()
        .real_requests
        .get(index as usize)
        .copied()
        .unwrap_or(NULL)
}

/// Sets the real request of an existing request.
pub fn set_real(rt: &Runtime, index: u32, real: RealRequest) {
    rt.requests.table.borrow_mut().real_requests[index as usize] = real;
}

/// Calls the real library with a real request, which the library may change.
///
/// The table is not borrowed during the call: an operator of the program may run and call MPI.
#[inline]
pub fn with_real<T>(rt: &Runtime, index: u32, call: impl FnOnce(&mut RealRequest) -> T) -> T {
    let mut request = real_of(rt, index);
    let before = request;
    let outcome = call(&mut request);
    if request != before {
        set_real(rt, index, request);
    }
    outcome
}

/// Returns the range of all indices, including unused ones.
pub fn indices(rt: &Runtime) -> std::ops::Range<u32> {
    0..table(rt).index_end()
}

/// True if a request or its companion is started and not complete.
pub fn is_active(rt: &Runtime, index: u32) -> bool {
    get(rt, index).is_some_and(|request| {
        request.is_started()
            || request
                .companion
                .is_some_and(|companion| is_active(rt, companion))
    })
}

/// True for a persistent request that is not started.
pub fn is_inactive(rt: &Runtime, index: u32) -> bool {
    get(rt, index).is_some_and(|request| request.state == RequestState::Inactive)
}

/// Returns the functions of a generalized request.
pub fn general(rt: &Runtime, index: u32) -> Option<GeneralizedFunctions> {
    match get(rt, index)?.kind {
        RequestKind::General(functions) => Some(functions),
        _ => None,
    }
}

/// Returns the number of frees after which all freed requests are tested.
pub fn until_reaped(rt: &Runtime) -> &Cell<u32> {
    &rt.requests.until_reaped
}

/// Frees the real request of a persistent request, which must not be started.
pub fn release_real(rt: &Runtime, index: u32) {
    if real_of(rt, index) != NULL && get(rt, index).is_some_and(|request| request.is_persistent()) {
        // SAFETY: a persistent request of the runtime that is not started, as the callers check.
        with_real(rt, index, |request| unsafe {
            real::PMPI_Request_free(request)
        });
    }
}

/// Returns the indices of the active requests that `wanted` selects.
pub fn active(rt: &Runtime, wanted: impl Fn(&RequestKind) -> bool) -> Vec<u32> {
    let is_wanted =
        |request: &Request| request.state == RequestState::Active && wanted(&request.kind);
    let table = table(rt);
    let requests = table.iter().filter(|(_, request)| is_wanted(request));
    requests.map(|(index, _)| index).collect()
}
