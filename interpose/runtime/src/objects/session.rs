//! Sessions (MPI 4.1, 11.3) beside `MPI_Init`: process sets of the workers.
//!
//! They are wholly on our side, and hold nothing.

use super::lookup::{Predefined, created};
use super::{comm, objects, objects_mut};
use crate::generated::HandleKind;
use crate::handles::{VirtErrhandler, VirtSession, virtual_handle};
use crate::objects::Runtime;
use std::cell::RefMut;
use std::ffi::{CStr, c_int};
use understudy_numbers::Worker;

/// `MPI_ERR_SESSION`
pub const ERR_SESSION: c_int = 78;

/// The process sets, which any implementation has (11.3.2).
pub const SETS: [&CStr; 2] = [WORLD, SELF];
const WORLD: &CStr = c"mpi://WORLD";
const SELF: &CStr = c"mpi://SELF";

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
    created(HandleKind::Session, session.0).filter(|&index| objects(rt).sessions.get(index).is_some())
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

/// A new session.
pub fn create(rt: &Runtime, errhandler: VirtErrhandler) -> VirtSession {
    let errhandler = errhandler.0 as u64;
    let index = objects_mut(rt).sessions.insert(Session { errhandler });
    VirtSession(virtual_handle(HandleKind::Session, index))
}

/// Removes a session.
pub fn remove(rt: &Runtime, index: u32) {
    objects_mut(rt).sessions.remove(index);
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
