//! Communicators (MPI 4.1, chapter 7): their recipes, and fast answers about them.
//!
//! A recipe says which workers are members in which order; it does not say how the program came to have the
//! communicator. So every communicator is made again in the same way, by splitting the new world ([`rebuild`]).
#![allow(unsafe_code)]

pub mod create;
pub mod firsts;
pub mod freed;
pub mod hints;
mod rebuild;
mod recent;
pub mod spawned;
pub mod topology;

use super::attribute::value::Attributes;
use super::{objects, objects_mut};
use crate::cell::Field;
use crate::errors::ERR_UNSUPPORTED_OPERATION;
use crate::generated::{HandleKind, real};
use crate::handles::{self, Named, VirtComm, created, named, real_comm};
use crate::objects::Runtime;
pub use rebuild::rebuild;
pub use recent::{forget_recent, index, rank_and_size, spans_all, worker_of};
pub use spawned::is_spawned;
use std::cell::{Cell, Ref, RefMut};
use std::ffi::{CStr, c_int};
pub use topology::{Topology, degrees};
use understudy_mpi::real_types::RealComm;
use understudy_mpi::{self as mpi, check};
use understudy_numbers::Worker;

/// Communicators, but for their recipes.
pub(super) struct Here {
    state: Field<State>,
    /// Always what the table would tell.
    recent: Cell<recent::Recent>,
}

impl Here {
    /// At the start of the process.
    pub(super) const fn new() -> Here {
        Here {
            state: Field::new(State {
                world: VirtComm(std::ptr::null_mut()),
                world_symbol: usize::MAX,
                self_: VirtComm(std::ptr::null_mut()),
                self_symbol: usize::MAX,
                real_self: RealComm(std::ptr::null_mut()),
                workers: 0,
                me: Worker(0),
                bridge: None,
            }),
            recent: Cell::new(recent::NOTHING),
        }
    }
}

pub const WORLD: u32 = 0;
pub const SELF: u32 = 1;

/// `uid` of `MPI_COMM_WORLD`; all created communicators have greater ones.
pub const WORLD_UID: u64 = 0;
/// `uid` of `MPI_COMM_SELF`, which is the only one that is not the same for all members of something.
pub const SELF_UID: u64 = u64::MAX;

/// What is needed to make a communicator again, and what the program has attached to it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Comm {
    /// The same number in all members, and of no other communicator that exists:
    /// `worker rank of the member that chose it << 40 | number` (or see [`derived_uid`](understudy_policy::communicator_plan::derived_uid)).
    pub uid: u64,
    /// The members (of the local group) in the order of their ranks, as ranks of `MPI_COMM_WORLD`.
    pub members: Vec<Worker>,
    /// The remote group of an intercommunicator.
    pub remote: Option<Vec<Worker>>,
    pub topology: Topology,
    /// The name that the program has set. C strings need not be UTF-8.
    pub name: Option<Vec<u8>>,
    /// The error handler: the program's handle; 0: none has been set.
    pub errhandler: u64,
    /// Attributes: key and value.
    pub attributes: Attributes,
    /// Hints (MPI 4.1, 7.4.4): key and value.
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether it is an intracommunicator that every worker is a member of.
    pub collective_over_all: bool,
    /// How many persistent collectives, and non-blocking duplicates of an intercommunicator, have been made on it.
    pub inits: u64,
    /// How many blocking collectives this process has entered on it, unless every worker is a member.
    pub collectives: u64,
    /// Changes of control variables before it was made; see `tool::written`.
    pub variable_changes: u64,
    /// What MPICH has counted on it.
    pub firsts: firsts::Firsts,
    /// The session that it comes from: the program's handle; 0: the World Model.
    pub session: u64,
    /// Whether this process has freed it: see [`freed`].
    pub is_freed: bool,
}

impl Comm {
    /// The members of both groups.
    pub fn workers(&self) -> impl Iterator<Item = Worker> + '_ {
        self.members
            .iter()
            .chain(self.remote.iter().flatten())
            .copied()
    }

    /// A recipe of the same members, without what is each communicator's own.
    fn duplicate(self, uid: u64, variable_changes: u64) -> Comm {
        Comm {
            uid,
            variable_changes,
            name: None,
            attributes: Vec::new(),
            inits: 0,
            collectives: 0,
            firsts: Vec::new(),
            ..self
        }
    }

    /// Whether spawned processes are in it. Then it never comes back: there is no cut as long as it is there.
    pub fn has_spawned(&self) -> bool {
        self.workers().any(is_spawned)
    }

    /// The one that comes after `me` among them, and after the last the first.
    fn after(&self, me: Worker) -> Worker {
        let next = self.workers().filter(|&worker| worker > me).min();
        next.or_else(|| self.workers().min()).unwrap_or(me)
    }
}

/// What belongs to this process and is not saved.
struct State {
    /// The program's handles of the two predefined communicators, and the indices of their data symbols.
    world: VirtComm,
    world_symbol: usize,
    self_: VirtComm,
    self_symbol: usize,
    /// The real library's, behind which the program's is a duplicate.
    real_self: RealComm,
    /// Number of workers, and the rank of this one among them.
    workers: u32,
    me: Worker,
    /// A communicator of all workers that the program does not know.
    bridge: Option<RealComm>,
}

/// Enters the two predefined communicators in the table. `world` is what the program sees as `MPI_COMM_WORLD`: a
/// communicator of all `workers`. Collective over them, since a second one is made for the layer's own use.
pub fn init(rt: &Runtime, world: RealComm, workers: u32, me: Worker) -> mpi::Result<()> {
    connect_world(rt, world, workers, me);
    renew_self(rt)?;
    let recipe = |uid, members: Vec<Worker>| Comm {
        uid,
        collective_over_all: members.len() == workers as usize,
        members,
        remote: None,
        topology: Topology::None,
        name: None,
        errhandler: 0,
        attributes: Vec::new(),
        info: Vec::new(),
        inits: 0,
        collectives: 0,
        variable_changes: 0,
        firsts: Vec::new(),
        session: 0,
        is_freed: false,
    };
    if objects(rt).comms.get(WORLD).is_none() {
        let comms = &mut objects_mut(rt).comms;
        comms.insert(recipe(WORLD_UID, Worker::all(workers).collect()));
        comms.insert(recipe(SELF_UID, vec![me]));
    }
    name_predefined(rt);
    make_bridge(rt, world)
}

fn connect_world(rt: &Runtime, world: RealComm, workers: u32, me: Worker) {
    let mut state = rt.comm.state.borrow_mut();
    let symbol = |name| handles::symbol_index(name).unwrap_or(usize::MAX);
    state.world_symbol = symbol("ompi_mpi_comm_world");
    state.self_symbol = symbol("ompi_mpi_comm_self");
    state.world = VirtComm(handles::predefined_handle(rt, "ompi_mpi_comm_world"));
    state.self_ = VirtComm(handles::predefined_handle(rt, "ompi_mpi_comm_self"));
    if state.real_self.0.is_null() {
        state.real_self = real_comm(rt, state.self_);
    }
    state.workers = workers;
    state.me = me;
    handles::set_predefined(rt, state.world_symbol, world.0);
    forget_recent(rt);
    world.return_errors();
    state.real_self.return_errors();
}

/// Puts a new duplicate behind `MPI_COMM_SELF`: what the program has sent itself and not received is lost with the old one.
fn renew_self(rt: &Runtime) -> mpi::Result<()> {
    let state = rt.comm.state.borrow();
    let mut new = null_real(rt);
    // SAFETY: a communicator of this process alone.
    check(unsafe { real::PMPI_Comm_dup(state.real_self, &mut new) })?;
    new.return_errors();
    handles::set_predefined(rt, state.self_symbol, new.0);
    Ok(())
}

fn name_predefined(rt: &Runtime) {
    let default: [(u32, VirtComm, &CStr); 2] = [
        (WORLD, world_handle(rt), c"MPI_COMM_WORLD"),
        (SELF, self_handle(rt), c"MPI_COMM_SELF"),
    ];
    for (index, handle, name) in default {
        let own = objects(rt)
            .comms
            .get(index)
            .and_then(|comm| comm.name.clone());
        hints::set_name(
            real_comm(rt, handle),
            own.as_deref().unwrap_or(name.to_bytes()),
        );
    }
}

/// A communicator of all workers that the program does not know.
pub fn bridge(rt: &Runtime) -> Option<RealComm> {
    rt.comm.state.borrow().bridge
}

fn make_bridge(rt: &Runtime, world: RealComm) -> mpi::Result<()> {
    let mut bridge = null_real(rt);
    // SAFETY: a communicator of all workers, who all call this.
    check(unsafe { real::PMPI_Comm_dup(world, &mut bridge) })?;
    bridge.return_errors();
    rt.comm.state.borrow_mut().bridge = Some(bridge);
    Ok(())
}

fn null_real(rt: &Runtime) -> RealComm {
    real_comm(rt, null_handle(rt))
}

/// `MPI_COMM_WORLD` as the program knows it.
pub fn world_handle(rt: &Runtime) -> VirtComm {
    rt.comm.state.borrow().world
}

/// `MPI_COMM_SELF` as the program knows it.
pub fn self_handle(rt: &Runtime) -> VirtComm {
    rt.comm.state.borrow().self_
}

/// `MPI_COMM_NULL` as the program knows it.
pub fn null_handle(rt: &Runtime) -> VirtComm {
    VirtComm(handles::predefined_handle(rt, "ompi_mpi_comm_null"))
}

/// The program's handle of the communicator with this index.
pub fn handle(rt: &Runtime, index: u32) -> VirtComm {
    match index {
        WORLD => world_handle(rt),
        SELF => self_handle(rt),
        created => VirtComm(handles::virtual_handle(HandleKind::Comm, created)),
    }
}

fn find(rt: &Runtime, comm: VirtComm) -> Option<u32> {
    match named(comm.0) {
        Named::Created(_) => created(HandleKind::Comm, comm.0).filter(|&index| index > SELF),
        Named::Predefined(symbol) => predefined_index(rt, symbol),
        Named::Nothing => None,
    }
}

fn predefined_index(rt: &Runtime, symbol: usize) -> Option<u32> {
    let state = rt.comm.state.borrow();
    match symbol {
        _ if symbol == state.world_symbol => Some(WORLD),
        _ if symbol == state.self_symbol => Some(SELF),
        _ => None,
    }
}

/// The recipe of a communicator.
#[inline]
pub fn get(rt: &Runtime, comm: VirtComm) -> Option<Ref<'_, Comm>> {
    let index = index(rt, comm)?;
    Ref::filter_map(objects(rt), |all| all.comms.get(index)).ok()
}

/// The same, to be changed.
pub fn get_mut(rt: &Runtime, comm: VirtComm) -> Option<RefMut<'_, Comm>> {
    let index = index(rt, comm)?;
    RefMut::filter_map(objects_mut(rt), |all| all.comms.get_mut(index)).ok()
}

/// The worker ranks of the local group in the order of their ranks.
pub fn members(rt: &Runtime, comm: VirtComm) -> Option<Vec<Worker>> {
    Some(get(rt, comm)?.members.clone())
}

/// The worker ranks of the remote group, if it is an intercommunicator.
pub fn remote_members(rt: &Runtime, comm: VirtComm) -> Option<Vec<Worker>> {
    get(rt, comm)?.remote.clone()
}

/// Number of the members of both groups; 0 if it is no communicator.
pub fn size_of_both(rt: &Runtime, comm: VirtComm) -> usize {
    get(rt, comm).map_or(0, |comm| {
        comm.members.len() + comm.remote.as_ref().map_or(0, Vec::len)
    })
}

/// Whether spawned processes are in it.
pub fn has_spawned(rt: &Runtime, comm: VirtComm) -> bool {
    get(rt, comm).is_some_and(|comm| comm.has_spawned())
}

/// The session that a communicator comes from: the program's handle; 0: the World Model.
pub fn session(rt: &Runtime, comm: VirtComm) -> u64 {
    get(rt, comm).map_or(0, |comm| comm.session)
}

/// Whether spawned processes are in any communicator.
pub fn is_any_connected(rt: &Runtime) -> bool {
    objects(rt).comms.iter().any(|(_, comm)| comm.has_spawned())
}

/// Files are of workers only.
///
/// # Errors
/// `MPI_ERR_UNSUPPORTED_OPERATION`, and a line, if spawned processes are in the communicator.
pub fn workers_only(rt: &Runtime, comm: VirtComm) -> Result<(), c_int> {
    if !has_spawned(rt, comm) {
        return Ok(());
    }
    log::error!(
        "files of spawned processes are not supported; open them on a communicator of workers"
    );
    Err(ERR_UNSUPPORTED_OPERATION)
}

/// The program's handle of the error handler; 0 if none has been set, or it is no communicator.
pub fn errhandler(rt: &Runtime, comm: VirtComm) -> u64 {
    get(rt, comm).map_or(0, |comm| comm.errhandler)
}

/// Sets the error handler.
pub fn set_errhandler(rt: &Runtime, comm: VirtComm, errhandler: u64) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.errhandler = errhandler;
    }
}

pub fn attributes(rt: &Runtime, comm: VirtComm) -> Option<RefMut<'_, Attributes>> {
    get_mut(rt, comm).map(|comm| RefMut::map(comm, |comm| &mut comm.attributes))
}

/// Rank of this process in its own group.
pub fn my_rank(rt: &Runtime, comm: &Comm) -> Option<usize> {
    let me = rt.comm.state.borrow().me;
    comm.members.iter().position(|&member| member == me)
}

/// The rank of a worker in an intracommunicator.
pub fn rank_of(rt: &Runtime, comm: VirtComm, worker: Worker) -> Option<i32> {
    let comm = get(rt, comm)?;
    // In most all workers are in their order.
    let is_in_order = comm.members.get(worker.index()) == Some(&worker);
    let search = || comm.members.iter().position(|&member| member == worker);
    let rank = if is_in_order {
        Some(worker.index())
    } else {
        search()
    };
    rank.map(|rank| rank as i32)
}

/// `uid` of a communicator of workers, this one, and the one that comes after it among the members of both groups.
pub fn neighbour(rt: &Runtime, comm: VirtComm) -> Option<(u64, Worker, Worker)> {
    let me = rt.comm.state.borrow().me;
    let comm = get(rt, comm).filter(|comm| !comm.has_spawned())?;
    Some((comm.uid, me, comm.after(me)))
}

/// A blocking collective over some workers is entered.
#[inline]
pub fn count_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.collectives += 1;
    }
}

/// It has come to nothing.
pub fn discount_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.collectives -= 1;
    }
}

/// The sum over all communicators of what `share` makes of the `uid`, this worker, the one after it, and how many blocking collectives
/// this process has entered.
pub fn collectives(rt: &Runtime, share: impl Fn(u64, [Worker; 2]) -> u64) -> u64 {
    let (me, objects) = (rt.comm.state.borrow().me, objects(rt));
    let entered = objects
        .comms
        .iter()
        .map(|(_, comm)| comm)
        .filter(|comm| comm.collectives > 0);
    let shares =
        entered.map(|comm| share(comm.uid, [me, comm.after(me)]).wrapping_mul(comm.collectives));
    shares.fold(0, u64::wrapping_add)
}

/// Forgets the real communicators after a failure: they have gone with the library that has made them.
pub fn drop_reals(rt: &Runtime) {
    let comms = objects(rt);
    let created = comms
        .comms
        .iter()
        .map(|(index, _)| index)
        .filter(|&index| index > SELF);
    created.for_each(|index| handles::set_real(rt, HandleKind::Comm, index, std::ptr::null_mut()));
    let state = &mut *rt.comm.state.borrow_mut();
    state.bridge = None;
    // A newcomer has no objects.
    if !state.real_self.0.is_null() {
        handles::set_predefined(rt, state.self_symbol, state.real_self.0);
    }
}
