//! Requests: what is outstanding, in virtual terms, with the real request beside it.
//!
//! Every request that a program holds is a record here. At a cut, sends are complete by construction and receives stay
//! as records; after a rollback they are posted again. Real requests end with the library that has made them: nothing
//! writes into the program's memory once it has been rolled back.
#![allow(unsafe_code)]

mod buffer;
mod ends;
mod order;
mod partitions;
mod recipe;
mod record;
mod starts;
pub mod synchronous;

use crate::arch::{self, turn};
use crate::attention::{self, RESUMES, SEVERAL};
use crate::cell::{Field, runtime};
use crate::errors::SUCCESS;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, VirtDatatype, VirtRequest, created};
use crate::objects::comm::create::Begun;
use crate::objects::lookup::Predefined;
use crate::objects::{self, comm, datatype};
pub use buffer::{
    Attached, Owner, attached, buffers, buffers_mut, detach, flushed_by, taken, with_room,
};
pub use ends::{alone, each_alone, end, end_all};
pub use order::Requests;
pub use partitions::{are_ready, is_any_unready, open_partitions};
pub use recipe::{Argument, Identity, Recipe, partitioned, share};
pub use record::{Envelope, General, Kind, Mode, Outcome, Request, State};
pub use starts::{is_started, startable};
use std::any::Any;
use std::cell::{Cell, Ref, RefMut};
use std::ffi::c_int;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealRequest, Status};
use understudy_numbers::Worker;

runtime! {
    pub struct Runtime: objects::Runtime {
        /// All requests of the program.
        table: Field<Table> = Field::new(Table {
            requests: Requests::NONE,
            reals: Vec::new(),
            kept: Vec::new(),
            unready: Vec::new(),
        }),
        /// How many more requests may be freed before all that have been are tested.
        until_reaped: Cell<u32> = Cell::new(0),
        /// The program's buffers for buffered sends.
        attached: Field<Vec<Attached>> = Field::new(Vec::new()),
    }
}

struct Table {
    requests: Requests,
    reals: Vec<RealRequest>,
    /// What the real library looks at until the request with this index has ended.
    kept: Vec<(u32, Box<dyn Any + Send>)>,
    /// Of partitioned sends that have been started: how many partitions are not ready.
    unready: Vec<(u32, u64)>,
}

const NULL: RealRequest = RealRequest(std::ptr::null_mut());

/// The requests of this process.
#[inline]
#[track_caller]
pub fn table(rt: &Runtime) -> Ref<'_, Requests> {
    Ref::map(rt.table.borrow(), |table| &table.requests)
}

/// The same, to be changed.
#[inline]
#[track_caller]
pub fn table_mut(rt: &Runtime) -> RefMut<'_, Requests> {
    RefMut::map(rt.table.borrow_mut(), |table| &mut table.requests)
}

/// Starts counting for this many workers.
pub fn init(rt: &Runtime, workers: u32) {
    let mut table = table_mut(rt);
    table.sent = vec![0; workers as usize];
    table.received = vec![0; workers as usize];
}

/// Replaces all requests by saved ones; they are not posted yet.
pub fn replace(rt: &Runtime, saved: Requests) {
    let mut table = rt.table.borrow_mut();
    table.reals = vec![NULL; saved.places() as usize];
    table.requests = saved;
    synchronous::restored(&table);
    table.kept.clear();
    table.unready.clear();
    if table.requests.begun.is_empty() {
        attention::clear(RESUMES);
    } else {
        attention::set(RESUMES);
    }
}

#[inline]
pub fn null_handle(rt: &Runtime) -> VirtRequest {
    static NULL_HANDLE: Predefined = Predefined::new("ompi_request_null");
    VirtRequest(NULL_HANDLE.get(rt))
}

/// A status without a message (MPI 4.1, section 3.7.3: empty).
pub const EMPTY: Status = Status {
    source: ANY_SOURCE,
    tag: ANY_TAG,
    error: SUCCESS,
    cancelled: 0,
    bytes: 0,
};

impl Table {
    /// Written in place: a record that was put together elsewhere would be read before its parts have got to memory.
    #[inline(always)]
    fn add(&mut self, comm: VirtComm, kind: Kind, state: State, real: RealRequest) -> VirtRequest {
        let index = self.requests.insert(comm.0 as u64, kind, state);
        match self.reals.get_mut(index as usize) {
            Some(place) => *place = real,
            None => self.reals.push(real),
        }
        VirtRequest(handles::virtual_handle(HandleKind::Request, index))
    }
}

/// Adds a request and returns the program's handle. The datatype of one that may be posted again is kept until then.
#[inline(always)]
pub fn add(
    rt: &Runtime,
    comm: VirtComm,
    kind: Kind,
    state: State,
    real: RealRequest,
) -> VirtRequest {
    if let Some(datatype) = kind.datatype() {
        datatype::retain(rt, datatype);
    }
    rt.table.borrow_mut().add(comm, kind, state, real)
}

/// Adds a send that is under way, and counts its message.
#[inline(always)]
pub fn add_send(
    rt: &Runtime,
    kind: Kind,
    comm: VirtComm,
    (peer, tag): (c_int, c_int),
    real: RealRequest,
) -> VirtRequest {
    let worker = receiver(rt, comm, (peer, tag));
    let handle = {
        let table = &mut *rt.table.borrow_mut();
        table.requests.count_sent(worker);
        table.add(comm, kind, State::Active, real)
    };
    if matches!(kind, Kind::Synchronous) {
        synchronous::add_for(rt, handle, comm, peer, tag);
    }
    handle
}

#[inline(always)]
pub fn add_receive(
    rt: &Runtime,
    envelope: Envelope,
    state: State,
    real: RealRequest,
) -> VirtRequest {
    add(rt, envelope.comm(), Kind::Receive(envelope), state, real)
}

/// Adds a non-blocking collective that is under way; a reduction's datatype may be freed meanwhile.
pub fn add_collective(
    rt: &Runtime,
    comm: VirtComm,
    reduces: Option<VirtDatatype>,
    real: RealRequest,
) -> VirtRequest {
    count_started(rt, share(rt, comm, 0));
    let kind = Kind::Collective(reduces.map(|datatype| datatype.0 as u64));
    add(rt, comm, kind, State::Active, real)
}

/// Adds what makes a communicator, and tells of it if that is necessary; both end together, and what the library writes to is kept until then.
pub fn add_duplicate(
    rt: &Runtime,
    comm: VirtComm,
    begun: Box<Begun>,
    made: RealRequest,
    told: Option<RealRequest>,
) -> VirtRequest {
    count_started(rt, share(rt, comm, 0));
    let kind = Kind::Duplicate(begun.index);
    let handle = add(rt, comm, kind, State::Active, made);
    // One alone would end without a word to the table of communicators.
    let told = match told {
        Some(told) => add(rt, comm, kind, State::Active, told),
        None => add_done(rt, comm, kind, EMPTY, SUCCESS),
    };
    join(rt, handle, told);
    keep(rt, handle, begun);
    handle
}

/// Enters the communicator of this index in the table, if nothing is under way any more that makes it.
pub fn finish_duplicate(rt: &Runtime, index: u32) {
    if !active(
        rt,
        |kind| matches!(kind, Kind::Duplicate(of) if *of == index),
    )
    .is_empty()
    {
        return;
    }
    let table = rt.table.borrow();
    let mut begun = table
        .kept
        .iter()
        .filter_map(|(_, kept)| kept.downcast_ref::<Begun>());
    if let Some(begun) = begun.find(|begun| begun.index == index) {
        begun.finish(rt);
    }
}

/// Adds a request that has a recipe and is not started, with what the library looks at until it is freed.
pub fn add_recorded(
    rt: &Runtime,
    recipe: Recipe,
    real: RealRequest,
    kept: Box<dyn Any + Send>,
) -> VirtRequest {
    recipe.retain(rt);
    let comm = recipe.comm();
    let number = {
        let recipes = &mut table_mut(rt).recipes;
        let number = recipes.last_key_value().map_or(0, |(last, _)| last + 1);
        recipes.insert(number, recipe);
        number
    };
    let handle = add(rt, comm, Kind::Recorded(number), State::Inactive, real);
    keep(rt, handle, kept);
    handle
}

/// How a request was made.
pub fn recipe(rt: &Runtime, number: u64) -> Option<Ref<'_, Recipe>> {
    Ref::filter_map(table(rt), |table| table.recipes.get(&number)).ok()
}

/// Something that several processes must start before a cut has been started here, with this process's share.
pub fn count_started(rt: &Runtime, share: u64) {
    let started = &mut table_mut(rt).started;
    *started = started.wrapping_add(share);
}

/// What this process has started, in the sum of all.
pub fn started(rt: &Runtime) -> u64 {
    table(rt)
        .started
        .wrapping_add(comm::collectives(rt, |uid, ends| {
            recipe::share_of(ends, uid, 0)
        }))
}

/// The blocking call of this thread that is under way has started these requests: the call, made again after it has given way or the
/// program was set back to a cut in it, finds them.
pub fn begin(rt: &Runtime, requests: [Option<VirtRequest>; 2]) {
    if arch::top_frame().is_some() {
        let indices = requests.map(|request| index(rt, request?));
        has_ended(rt);
        table_mut(rt).begun.push((turn::block() as u64, indices));
    }
}

/// What the call that is made now has started before, if it is made again.
pub fn resume(rt: &Runtime) -> Option<[Option<VirtRequest>; 2]> {
    if !attention::is(RESUMES | SEVERAL) {
        return None;
    }
    let own = turn::block() as u64;
    let table = table(rt);
    let (_, begun) = table.begun.iter().find(|(thread, _)| *thread == own)?;
    let handle = |index| VirtRequest(handles::virtual_handle(HandleKind::Request, index));
    Some(begun.map(|begun| begun.map(handle)))
}

/// The blocking call of this thread has ended.
pub fn has_ended(rt: &Runtime) {
    let own = turn::block() as u64;
    let mut table = table_mut(rt);
    table.begun.retain(|(thread, _)| *thread != own);
    if table.begun.is_empty() {
        attention::clear(RESUMES);
    }
}

/// The number of the next partitioned message of these ends and this tag, among those that this process sends, or receives.
pub fn next_partitioned(rt: &Runtime, pair: u64, is_send: bool) -> u64 {
    let next = &mut table_mut(rt).partitioned;
    let next = next.entry((pair, is_send)).or_default();
    *next += 1;
    *next
}

/// Whether the program has requests on a communicator.
pub fn are_on(rt: &Runtime, comm: VirtComm) -> bool {
    table(rt)
        .iter()
        .any(|(_, request)| request.comm == comm.0 as u64)
}

/// Adds a request that has ended already.
pub fn add_done(
    rt: &Runtime,
    comm: VirtComm,
    kind: Kind,
    status: Status,
    rc: c_int,
) -> VirtRequest {
    add(rt, comm, kind, done(status, rc), NULL)
}

/// Adds a buffered send, which nobody asks for: it takes so many bytes of a buffer until it has ended.
pub fn add_buffered(
    rt: &Runtime,
    comm: VirtComm,
    real: RealRequest,
    takes: (Owner, u64),
    copy: Box<dyn Any + Send>,
) {
    let mut handle = add(rt, comm, Kind::Send, State::Active, real);
    keep(rt, handle, copy);
    if let Some(mut request) = index(rt, handle).and_then(|it| get_mut(rt, it)) {
        request.buffered = Some(takes);
    }
    free(rt, &mut handle);
}

/// Keeps something until a request has ended: what the real library has been given the address of.
pub fn keep(rt: &Runtime, handle: VirtRequest, what: Box<dyn Any + Send>) {
    if let Some(index) = index(rt, handle) {
        keep_for(rt, index, what);
    }
}

/// The same by the index of the request.
pub fn keep_for(rt: &Runtime, index: u32, what: Box<dyn Any + Send>) {
    rt.table.borrow_mut().kept.push((index, what));
}

/// Makes `second`, whose handle the program does not get, end with `first`.
pub fn join(rt: &Runtime, first: VirtRequest, second: VirtRequest) {
    let second = index(rt, second);
    if let Some(mut request) = index(rt, first).and_then(|it| get_mut(rt, it)) {
        request.other = second;
    }
}

/// Ended, with this outcome.
pub fn done(status: Status, rc: c_int) -> State {
    State::Done {
        status: (
            status.source,
            status.tag,
            status.error,
            status.cancelled,
            status.bytes as u64,
        ),
        rc,
    }
}

/// Removes a request that has ended.
pub fn remove(rt: &Runtime, index: u32) {
    let mut table = rt.table.borrow_mut();
    let Some(request) = table.requests.remove(index) else {
        return;
    };
    if !table.kept.is_empty() {
        table.kept.retain(|(of, _)| *of != index);
    }
    table.unready.retain(|(of, _)| *of != index);
    let recipe = match request.kind {
        Kind::Recorded(number) => table.requests.recipes.remove(&number),
        _ => None,
    };
    drop(table);
    if let Some(recipe) = recipe {
        recipe.release(rt);
    }
    if let Some(datatype) = request.kind.datatype() {
        datatype::release(rt, datatype);
    }
    if let Some(other) = request.other {
        remove(rt, other);
    }
}

/// Index of a request that exists; `None` for MPI_REQUEST_NULL and invalid handles.
#[inline]
pub fn index(rt: &Runtime, handle: VirtRequest) -> Option<u32> {
    created(HandleKind::Request, handle.0).filter(|&index| table(rt).get(index).is_some())
}

/// The request with this index.
#[inline]
pub fn get(rt: &Runtime, index: u32) -> Option<Ref<'_, Request>> {
    Ref::filter_map(table(rt), |table| table.get(index)).ok()
}

/// The same, to be changed.
#[inline]
pub fn get_mut(rt: &Runtime, index: u32) -> Option<RefMut<'_, Request>> {
    RefMut::filter_map(table_mut(rt), |table| table.get_mut(index)).ok()
}

/// Notes how far a request is.
pub fn set_state(rt: &Runtime, index: u32, state: State) {
    if let Some(mut request) = get_mut(rt, index) {
        request.state = state;
    }
}

pub fn real_of(rt: &Runtime, index: u32) -> RealRequest {
    rt.table
        .borrow()
        .reals
        .get(index as usize)
        .copied()
        .unwrap_or(NULL)
}

/// Sets the real request of one that exists.
pub fn set_real(rt: &Runtime, index: u32, real: RealRequest) {
    rt.table.borrow_mut().reals[index as usize] = real;
}

/// Calls the real library for a real request, which it may change. The table is not borrowed meanwhile: an operator of the
/// program may run, which calls MPI.
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

/// All indices, also of those that are free.
pub fn indices(rt: &Runtime) -> std::ops::Range<u32> {
    0..table(rt).places()
}

/// Counts a message that is on its way to this peer with this tag.
#[inline(always)]
pub fn count_sent(rt: &Runtime, comm: VirtComm, to: (c_int, c_int)) {
    let worker = receiver(rt, comm, to);
    table_mut(rt).count_sent(worker);
}

/// The worker that a message is for.
#[inline(always)]
fn receiver(rt: &Runtime, comm: VirtComm, (peer, tag): (c_int, c_int)) -> Option<Worker> {
    synchronous::follow(rt, comm, peer, tag);
    comm::worker_of(rt, comm, peer)
}

/// Counts a message that has arrived.
#[inline(always)]
pub fn count_received(rt: &Runtime, comm: VirtComm, status: &Status) {
    if status.cancelled == 0 {
        let worker = comm::worker_of(rt, comm, status.source);
        table_mut(rt).count_received(worker);
    }
}

/// Whether a request is under way.
pub fn is_active(rt: &Runtime, index: u32) -> bool {
    get(rt, index).is_some_and(|request| {
        request.is_under_way() || request.other.is_some_and(|it| is_active(rt, it))
    })
}

/// Whether it is a persistent request that is not started.
pub fn is_inactive(rt: &Runtime, index: u32) -> bool {
    get(rt, index).is_some_and(|request| request.state == State::Inactive)
}

/// The functions of a generalized request.
pub fn general(rt: &Runtime, index: u32) -> Option<General> {
    match get(rt, index)?.kind {
        Kind::General(general) => Some(general),
        _ => None,
    }
}

/// Frees a request (MPI_Request_free): an active one is kept until it has ended, and a generalized one until the program
/// has been told.
pub fn free(rt: &Runtime, handle: &mut VirtRequest) {
    let Some(index) = index(rt, *handle) else {
        return;
    };
    if is_active(rt, index) || general(rt, index).is_some() {
        if let Some(mut request) = get_mut(rt, index) {
            request.orphan = true;
        }
    } else {
        release_real(rt, index);
        remove(rt, index);
    }
    *handle = null_handle(rt);
}

/// How many more requests may be freed before all that have been are tested.
pub fn until_reaped(rt: &Runtime) -> &Cell<u32> {
    &rt.until_reaped
}

/// Frees the real request of a persistent one that is not started.
pub fn release_real(rt: &Runtime, index: u32) {
    if real_of(rt, index) != NULL && get(rt, index).is_some_and(|request| request.is_persistent()) {
        // SAFETY: an inactive persistent request.
        with_real(rt, index, |request| unsafe {
            real::PMPI_Request_free(request)
        });
    }
}

/// Indices of the active requests that `wanted` selects.
pub fn active(rt: &Runtime, wanted: impl Fn(&Kind) -> bool) -> Vec<u32> {
    let is_wanted = |request: &Request| request.state == State::Active && wanted(&request.kind);
    let table = table(rt);
    let requests = table.iter().filter(|(_, request)| is_wanted(request));
    requests.map(|(index, _)| index).collect()
}
