//! Sessions in the table, and their process sets.

use super::world_model::{Session, WorldModel, publish};
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtErrhandler, VirtSession, virtual_handle};
use crate::objects::lookup::{PredefinedHandle, created_index};
use crate::objects::{Objects, comm, objects, objects_mut};
use std::cell::RefMut;
use std::ffi::{CStr, c_int};
use understudy_numbers::Worker;

pub const ERR_SESSION: c_int = 78;

/// Process sets that every implementation provides (11.3.2).
pub const SETS: [&CStr; 2] = [WORLD, SELF];
const WORLD: &CStr = c"mpi://WORLD";
const SELF: &CStr = c"mpi://SELF";

/// Returns the program's handle of `MPI_SESSION_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtSession {
    static NULL: PredefinedHandle = PredefinedHandle::new("ompi_mpi_instance_null");
    VirtSession(NULL.get(rt))
}

/// Returns the index of a session.
pub fn index(rt: &Runtime, session: VirtSession) -> Option<u32> {
    created_index(HandleKind::Session, session.0)
        .filter(|&index| objects(rt).sessions.get(index).is_some())
}

/// Borrows the entry of a session to change it.
pub fn get_mut(rt: &Runtime, session: VirtSession) -> Option<RefMut<'_, Session>> {
    let index = created_index(HandleKind::Session, session.0)?;
    RefMut::filter_map(objects_mut(rt), |all| all.sessions.get_mut(index)).ok()
}

/// Returns the program's handle of the error handler; zero for the default.
pub fn errhandler(rt: &Runtime, session: VirtSession) -> u64 {
    get_mut(rt, session).map_or(0, |session| session.errhandler)
}

fn handle(index: u32) -> VirtSession {
    VirtSession(virtual_handle(HandleKind::Session, index))
}

pub fn create(rt: &Runtime, errhandler: VirtErrhandler) -> VirtSession {
    let errhandler = errhandler.0 as u64;
    let index = objects_mut(rt).sessions.insert(Session { errhandler });
    publish_state(rt);
    handle(index)
}

/// Returns the session with the lowest index.
pub fn first(rt: &Runtime) -> Option<VirtSession> {
    objects(rt)
        .sessions
        .iter()
        .next()
        .map(|(index, _)| handle(index))
}

/// Removes a session.
///
/// Remaining objects of the session lose their reference to the session, since the next session may
/// get the removed one's handle.
pub fn remove(rt: &Runtime, index: u32) {
    remove_references(&mut objects_mut(rt), index);
    publish_state(rt);
}

fn remove_references(all: &mut Objects, index: u32) {
    let own = handle(index).0 as u64;
    all.sessions.remove(index);
    let comms = all.comms.iter_mut().map(|(_, comm)| &mut comm.session);
    let groups = all.groups.iter_mut().map(|(_, group)| &mut group.session);
    for session in comms.chain(groups).filter(|session| **session == own) {
        *session = 0;
    }
}

/// Records the state of the World Model.
pub fn set_world_model(rt: &Runtime, model: WorldModel) {
    objects_mut(rt).world_model = model;
    publish_state(rt);
}

/// Publishes the World Model's state and the number of sessions to other threads.
pub fn publish_state(rt: &Runtime) {
    let all = objects(rt);
    publish(all.world_model, all.sessions.iter().count());
}

/// Returns the members of a process set; `None` for another name.
///
/// Scheme and authority of a URI are case-insensitive.
pub fn members(rt: &Runtime, set: &CStr) -> Option<Vec<Worker>> {
    let is_named = |name: &CStr| set.to_bytes().eq_ignore_ascii_case(name.to_bytes());
    match set {
        _ if is_named(WORLD) => comm::members(rt, comm::world_handle(rt)),
        _ if is_named(SELF) => comm::members(rt, comm::self_handle(rt)),
        _ => None,
    }
}
