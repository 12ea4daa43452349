//! Requests: what is outstanding, in virtual terms, with the real request beside it.
//!
//! Every request that a program holds is a record here. At a cut, sends are complete by construction and receives stay
//! as records; after a rollback they are posted again. Real requests end with the library that has made them: nothing
//! writes into the program's memory once it has been rolled back.
#![allow(unsafe_code)]

mod buffer;
mod ends;
mod order;
mod recipe;
mod record;

use crate::arch::{self, turn};
use crate::attention::{self, RESUMES, SEVERAL};
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, VirtDatatype, VirtRequest, created};
use crate::objects::comm::create::Begun;
use crate::objects::lookup::Predefined;
use crate::objects::{comm, datatype};
use crate::traffic;
pub use buffer::{Attached, attach, attached};
pub use ends::{alone, each_alone, end, end_all};
pub use order::Requests;
pub use recipe::{Argument, Identity, Recipe, partitioned, share};
pub use record::{Envelope, General, Kind, Mode, Outcome, Request, State};
use std::any::Any;
use std::cell::{Ref, RefMut};
use std::ffi::c_int;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealRequest, Status};
use understudy_numbers::Worker;

struct Table {
    requests: Requests,
    reals: Vec<RealRequest>,
    /// What the real library looks at until the request with this index has ended.
    kept: Vec<(u32, Box<dyn Any + Send>)>,
    /// Of partitioned sends that have been started: how many partitions are not ready.
    unready: Vec<(u32, u64)>,
}

static TABLE: Main<Table> = Main::new(Table {
    requests: Requests::NONE,
    reals: Vec::new(),
    kept: Vec::new(),
    unready: Vec::new(),
});

const NULL: RealRequest = RealRequest(std::ptr::null_mut());

/// The requests of this process.
#[inline]
#[track_caller]
pub fn table() -> Ref<'static, Requests> {
    Ref::map(TABLE.borrow(), |table| &table.requests)
}

/// The same, to be changed.
#[inline]
#[track_caller]
pub fn table_mut() -> RefMut<'static, Requests> {
    RefMut::map(TABLE.borrow_mut(), |table| &mut table.requests)
}

/// Starts counting for this many workers.
pub fn init(workers: u32) {
    let mut table = table_mut();
    table.sent = vec![0; workers as usize];
    table.received = vec![0; workers as usize];
}

/// Replaces all requests by saved ones; they are not posted yet.
pub fn replace(saved: Requests) {
    let mut table = TABLE.borrow_mut();
    table.reals = vec![NULL; saved.places() as usize];
    table.requests = saved;
    table.kept.clear();
    table.unready.clear();
    if table.requests.begun.is_empty() {
        attention::clear(RESUMES);
    } else {
        attention::set(RESUMES);
    }
}

/// The program's MPI_REQUEST_NULL.
pub fn null_handle() -> VirtRequest {
    static NULL_HANDLE: Predefined = Predefined::new("ompi_request_null");
    VirtRequest(NULL_HANDLE.get())
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
pub fn add(comm: VirtComm, kind: Kind, state: State, real: RealRequest) -> VirtRequest {
    if let Some(envelope) = kind.envelope() {
        datatype::retain(envelope.datatype());
    }
    TABLE.borrow_mut().add(comm, kind, state, real)
}

/// Adds a send of so many elements that is under way, and counts its message.
#[inline(always)]
pub fn add_send(comm: VirtComm, peer: c_int, count: c_int, datatype: VirtDatatype, real: RealRequest) -> VirtRequest {
    let worker = receiver(comm, peer, count, datatype);
    let table = &mut *TABLE.borrow_mut();
    table.requests.count_sent(worker);
    table.add(comm, Kind::Send, State::Active, real)
}

/// Adds a receive.
#[inline(always)]
pub fn add_receive(envelope: Envelope, state: State, real: RealRequest) -> VirtRequest {
    add(envelope.comm(), Kind::Receive(envelope), state, real)
}

/// Adds a non-blocking collective that is under way.
pub fn add_collective(comm: VirtComm, real: RealRequest) -> VirtRequest {
    count_started(share(comm, 0));
    add(comm, Kind::Collective, State::Active, real)
}

/// Adds what makes a communicator, and tells of it if that is necessary; both end together, and what the library writes to is kept until then.
pub fn add_duplicate(comm: VirtComm, begun: Box<Begun>, made: RealRequest, told: Option<RealRequest>) -> VirtRequest {
    count_started(share(comm, 0));
    let kind = Kind::Duplicate(begun.index);
    let handle = add(comm, kind, State::Active, made);
    // One alone would end without a word to the table of communicators.
    let told = match told {
        Some(told) => add(comm, kind, State::Active, told),
        None => add_done(comm, kind, EMPTY, SUCCESS),
    };
    join(handle, told);
    keep(handle, begun);
    handle
}

/// Enters the communicator of this index in the table, if nothing is under way any more that makes it.
pub fn finish_duplicate(index: u32) {
    if !active(|kind| matches!(kind, Kind::Duplicate(of) if *of == index)).is_empty() {
        return;
    }
    let table = TABLE.borrow();
    let mut begun = table.kept.iter().filter_map(|(_, kept)| kept.downcast_ref::<Begun>());
    if let Some(begun) = begun.find(|begun| begun.index == index) {
        begun.finish();
    }
}

/// Adds a request that has a recipe and is not started, with what the library looks at until it is freed.
pub fn add_recorded(recipe: Recipe, real: RealRequest, kept: Box<dyn Any + Send>) -> VirtRequest {
    recipe.retain();
    let comm = recipe.comm();
    let number = {
        let recipes = &mut table_mut().recipes;
        let number = recipes.last_key_value().map_or(0, |(last, _)| last + 1);
        recipes.insert(number, recipe);
        number
    };
    let handle = add(comm, Kind::Recorded(number), State::Inactive, real);
    keep(handle, kept);
    handle
}

/// How a request was made.
pub fn recipe(number: u64) -> Option<Ref<'static, Recipe>> {
    Ref::filter_map(table(), |table| table.recipes.get(&number)).ok()
}

/// Something that several processes must start before a cut has been started here, with this process's share.
pub fn count_started(share: u64) {
    let started = &mut table_mut().started;
    *started = started.wrapping_add(share);
}

/// What this process has started, in the sum of all.
pub fn started() -> u64 {
    table()
        .started
        .wrapping_add(comm::collectives(|uid, ends| recipe::share_of(ends, uid, 0)))
}

/// The blocking call of this thread that is under way has started these requests: the call, made again after it has given way or the
/// program was set back to a cut in it, finds them.
pub fn begin(requests: [Option<VirtRequest>; 2]) {
    if arch::top_frame().is_some() {
        let indices = requests.map(|request| index(request?));
        has_ended();
        table_mut().begun.push((turn::block() as u64, indices));
    }
}

/// What the call that is made now has started before, if it is made again.
pub fn resume() -> Option<[Option<VirtRequest>; 2]> {
    if !attention::is(RESUMES | SEVERAL) {
        return None;
    }
    let own = turn::block() as u64;
    let table = table();
    let (_, begun) = table.begun.iter().find(|(thread, _)| *thread == own)?;
    let handle = |index| VirtRequest(handles::virtual_handle(HandleKind::Request, index));
    Some(begun.map(|begun| begun.map(handle)))
}

/// The blocking call of this thread has ended.
pub fn has_ended() {
    let own = turn::block() as u64;
    let mut table = table_mut();
    table.begun.retain(|(thread, _)| *thread != own);
    if table.begun.is_empty() {
        attention::clear(RESUMES);
    }
}

/// The number of the next partitioned message of these ends and this tag, among those that this process sends, or receives.
pub fn next_partitioned(pair: u64, is_send: bool) -> u64 {
    let next = &mut table_mut().partitioned;
    let next = next.entry((pair, is_send)).or_default();
    *next += 1;
    *next
}

/// A communicator has been freed: requests with recipes cannot be made again.
pub fn forget_comm(comm: VirtComm) {
    let recipes = &mut table_mut().recipes;
    let of_comm = recipes.values_mut().filter(|recipe| recipe.comm() == comm);
    of_comm.for_each(|recipe| recipe.identity = None);
}

/// Whether the program has requests on a communicator.
pub fn are_on(comm: VirtComm) -> bool {
    table().iter().any(|(_, request)| request.comm == comm.0 as u64)
}

/// Adds a request that has ended already.
pub fn add_done(comm: VirtComm, kind: Kind, status: Status, rc: c_int) -> VirtRequest {
    add(comm, kind, done(status, rc), NULL)
}

/// Adds a buffered send, which nobody asks for: it takes so many bytes of the buffer until it has ended.
pub fn add_buffered(comm: VirtComm, real: RealRequest, bytes: u64, copy: Box<dyn Any + Send>) {
    let mut handle = add(comm, Kind::Send, State::Active, real);
    keep(handle, copy);
    if let Some(mut request) = index(handle).and_then(get_mut) {
        request.buffered = bytes;
    }
    free(&mut handle);
}

/// How many bytes of the buffer for buffered sends are taken.
pub fn buffered() -> u64 {
    table().iter().map(|(_, request)| request.buffered).sum()
}

/// Keeps something until a request has ended: what the real library has been given the address of.
pub fn keep(handle: VirtRequest, what: Box<dyn Any + Send>) {
    if let Some(index) = index(handle) {
        keep_for(index, what);
    }
}

/// The same by the index of the request.
pub fn keep_for(index: u32, what: Box<dyn Any + Send>) {
    TABLE.borrow_mut().kept.push((index, what));
}

/// Makes `second`, whose handle the program does not get, end with `first`.
pub fn join(first: VirtRequest, second: VirtRequest) {
    let second = index(second);
    if let Some(mut request) = index(first).and_then(get_mut) {
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
pub fn remove(index: u32) {
    let mut table = TABLE.borrow_mut();
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
        recipe.release();
    }
    if let Some(envelope) = request.kind.envelope() {
        datatype::release(envelope.datatype());
    }
    if let Some(other) = request.other {
        remove(other);
    }
}

/// Index of a request that exists; `None` for MPI_REQUEST_NULL and invalid handles.
#[inline]
pub fn index(handle: VirtRequest) -> Option<u32> {
    created(HandleKind::Request, handle.0).filter(|&index| table().get(index).is_some())
}

/// The request with this index.
#[inline]
pub fn get(index: u32) -> Option<Ref<'static, Request>> {
    Ref::filter_map(table(), |table| table.get(index)).ok()
}

/// The same, to be changed.
#[inline]
pub fn get_mut(index: u32) -> Option<RefMut<'static, Request>> {
    RefMut::filter_map(table_mut(), |table| table.get_mut(index)).ok()
}

/// Notes how far a request is.
pub fn set_state(index: u32, state: State) {
    if let Some(mut request) = get_mut(index) {
        request.state = state;
    }
}

/// The real request.
pub fn real_of(index: u32) -> RealRequest {
    TABLE.borrow().reals.get(index as usize).copied().unwrap_or(NULL)
}

/// Sets the real request of one that exists.
pub fn set_real(index: u32, real: RealRequest) {
    TABLE.borrow_mut().reals[index as usize] = real;
}

/// Calls the real library for a real request, which it may change. The table is not borrowed meanwhile: an operator of the
/// program may run, which calls MPI.
#[inline]
pub fn with_real<T>(index: u32, call: impl FnOnce(&mut RealRequest) -> T) -> T {
    let mut request = real_of(index);
    let before = request;
    let outcome = call(&mut request);
    if request != before {
        set_real(index, request);
    }
    outcome
}

/// All indices, also of those that are free.
pub fn indices() -> std::ops::Range<u32> {
    0..table().places()
}

/// Counts a message that is on its way, of so many elements.
#[inline(always)]
pub fn count_sent(comm: VirtComm, peer: c_int, count: c_int, datatype: VirtDatatype) {
    let worker = receiver(comm, peer, count, datatype);
    table_mut().count_sent(worker);
}

/// The worker that a message of so many elements is for, which is told of.
#[inline(always)]
fn receiver(comm: VirtComm, peer: c_int, count: c_int, datatype: VirtDatatype) -> Option<Worker> {
    let worker = comm::worker_of(comm, peer);
    if traffic::is_on() {
        traffic::sent(comm, worker, count, datatype);
    }
    worker
}

/// Counts a message that has arrived.
#[inline(always)]
pub fn count_received(comm: VirtComm, status: &Status) {
    if status.cancelled == 0 {
        let worker = comm::worker_of(comm, status.source);
        table_mut().count_received(worker);
    }
}

/// A partitioned send of so many partitions has been started. The library is not asked for it before all are ready: Open MPI 5.0
/// would say that it has ended.
pub fn open_partitions(index: u32, partitions: u64) {
    set_state(index, State::Open);
    let unready = &mut TABLE.borrow_mut().unready;
    unready.retain(|(of, _)| *of != index);
    unready.push((index, partitions));
}

/// So many of its partitions are ready.
pub fn are_ready(index: u32, count: u64) {
    let is_whole = {
        let unready = &mut TABLE.borrow_mut().unready;
        unready
            .iter_mut()
            .filter(|(of, _)| *of == index)
            .for_each(|(_, left)| *left = left.saturating_sub(count));
        let before = unready.len();
        unready.retain(|(_, left)| *left > 0);
        unready.len() < before
    };
    if is_whole {
        set_state(index, State::Active);
    }
}

/// Whether a partitioned send is not ready.
pub fn is_any_unready() -> bool {
    !TABLE.borrow().unready.is_empty()
}

/// Whether a request is under way.
pub fn is_active(index: u32) -> bool {
    get(index).is_some_and(|request| {
        matches!(request.state, State::Active | State::Open) || request.other.is_some_and(is_active)
    })
}

/// Whether it is a persistent request that is not started.
pub fn is_inactive(index: u32) -> bool {
    get(index).is_some_and(|request| request.state == State::Inactive)
}

/// The functions of a generalized request.
pub fn general(index: u32) -> Option<General> {
    match get(index)?.kind {
        Kind::General(general) => Some(general),
        _ => None,
    }
}

/// Frees a request (MPI_Request_free): an active one is kept until it has ended, and a generalized one until the program
/// has been told.
pub fn free(handle: &mut VirtRequest) {
    let Some(index) = index(*handle) else { return };
    if is_active(index) || general(index).is_some() {
        if let Some(mut request) = get_mut(index) {
            request.orphan = true;
        }
    } else {
        release_real(index);
        remove(index);
    }
    *handle = null_handle();
}

/// Frees the real request of a persistent one that is not started.
pub fn release_real(index: u32) {
    if real_of(index) != NULL && get(index).is_some_and(|request| request.is_persistent()) {
        // SAFETY: an inactive persistent request.
        with_real(index, |request| unsafe { real::PMPI_Request_free(request) });
    }
}

/// Indices of the active requests that `wanted` selects.
pub fn active(wanted: impl Fn(&Kind) -> bool) -> Vec<u32> {
    let is_wanted = |request: &Request| request.state == State::Active && wanted(&request.kind);
    let table = table();
    let requests = table.iter().filter(|(_, request)| is_wanted(request));
    requests.map(|(index, _)| index).collect()
}
