//! Sessions (MPI 4.1, 11.3), beside `MPI_Init` or without it: process sets of the workers.
//!
//! They are wholly on our side, and hold nothing. Below them the library is initialised once, by whatever comes first, and finalised at the end:
//! in `MPI_Finalize`, or where sessions are or have been open, or the program's code names `MPI_Session_init`, when the program ends, since
//! it may open others until then.

use super::lookup::{Predefined, created};
use super::{Objects, comm, objects, objects_mut};
use crate::generated::HandleKind;
use crate::handles::{VirtErrhandler, VirtSession, virtual_handle};
use crate::objects::Runtime;
use std::cell::RefMut;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_numbers::Worker;

pub const ERR_SESSION: c_int = 78;

/// The process sets, which any implementation has (11.3.2).
pub const SETS: [&CStr; 2] = [WORLD, SELF];
const WORLD: &CStr = c"mpi://WORLD";
const SELF: &CStr = c"mpi://SELF";

/// What has become of the World Model (11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum WorldModel {
    /// `MPI_Init` has not been called.
    NotYet = 0,
    /// It has, and `MPI_Finalize` has not.
    Open = 1,
    Over = 2,
}

/// What any thread may ask at any time: the World Model, and how many sessions are open.
static TOLD: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// What the program has said about a session.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Session {
    /// The error handler: the program's handle.
    pub errhandler: u64,
}

/// `MPI_SESSION_NULL` as the program knows it.
pub fn null_handle(rt: &Runtime) -> VirtSession {
    static NULL: Predefined = Predefined::new("ompi_mpi_instance_null");
    VirtSession(NULL.get(rt))
}

/// The index of a session.
pub fn index(rt: &Runtime, session: VirtSession) -> Option<u32> {
    created(HandleKind::Session, session.0)
        .filter(|&index| objects(rt).sessions.get(index).is_some())
}

/// The entry of a session, to be changed.
pub fn get_mut(rt: &Runtime, session: VirtSession) -> Option<RefMut<'_, Session>> {
    let index = created(HandleKind::Session, session.0)?;
    RefMut::filter_map(objects_mut(rt), |all| all.sessions.get_mut(index)).ok()
}

/// The program's handle of the error handler; 0: the default.
pub fn errhandler(rt: &Runtime, session: VirtSession) -> u64 {
    get_mut(rt, session).map_or(0, |session| session.errhandler)
}

fn handle(index: u32) -> VirtSession {
    VirtSession(virtual_handle(HandleKind::Session, index))
}

pub fn create(rt: &Runtime, errhandler: VirtErrhandler) -> VirtSession {
    let errhandler = errhandler.0 as u64;
    let index = objects_mut(rt).sessions.insert(Session { errhandler });
    tell(rt);
    handle(index)
}

/// The only session there is.
pub fn first(rt: &Runtime) -> Option<VirtSession> {
    objects(rt)
        .sessions
        .iter()
        .next()
        .map(|(index, _)| handle(index))
}

/// Removes a session. What comes from it, and should be gone, does not come from the next one that gets its handle.
pub fn remove(rt: &Runtime, index: u32) {
    forget(&mut objects_mut(rt), index);
    tell(rt);
}

fn forget(all: &mut Objects, index: u32) {
    let own = handle(index).0 as u64;
    all.sessions.remove(index);
    let comms = all.comms.iter_mut().map(|(_, comm)| &mut comm.session);
    let groups = all.groups.iter_mut().map(|(_, group)| &mut group.session);
    for session in comms.chain(groups).filter(|session| **session == own) {
        *session = 0;
    }
}

/// Notes what has become of the World Model.
pub fn set_world_model(rt: &Runtime, model: WorldModel) {
    objects_mut(rt).world_model = model;
    tell(rt);
}

/// Tells other threads what is in the table.
pub fn tell(rt: &Runtime) {
    let all = objects(rt);
    TOLD[0].store(all.world_model as u32, Ordering::Relaxed);
    TOLD[1].store(all.sessions.iter().count() as u32, Ordering::Relaxed);
}

/// What has become of the World Model. Safe in any thread and in a signal handler.
pub fn world_model() -> WorldModel {
    match TOLD[0].load(Ordering::Relaxed) {
        0 => WorldModel::NotYet,
        1 => WorldModel::Open,
        _ => WorldModel::Over,
    }
}

/// Whether sessions are open. Safe in any thread and in a signal handler.
pub fn are_any() -> bool {
    TOLD[1].load(Ordering::Relaxed) != 0
}

/// The members of a process set; nothing for a name of none. Scheme and authority of a URI have no case.
pub fn members(rt: &Runtime, set: &CStr) -> Option<Vec<Worker>> {
    let is = |name: &CStr| set.to_bytes().eq_ignore_ascii_case(name.to_bytes());
    match set {
        _ if is(WORLD) => comm::members(rt, comm::world_handle(rt)),
        _ if is(SELF) => comm::members(rt, comm::self_handle(rt)),
        _ => None,
    }
}
