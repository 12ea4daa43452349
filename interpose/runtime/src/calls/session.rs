//! Sessions (MPI 4.1, 11.3), and communicators from groups (7.4.2, 7.6.2).
//!
//! Sessions can be used with `MPI_Init` or without.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::{outcome, put, put_text};
use super::assembly_sides;
use super::environment;
use crate::Runtime;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::{handle_error, handle_error_on};
use crate::errors::{ERR_ARG, ERR_RANK, ERR_UNSUPPORTED_OPERATION, SUCCESS};
use crate::generated::{HandleKind, Proc};
use crate::handles::{VirtComm, VirtErrhandler, VirtGroup, VirtInfo, VirtSession};
use crate::objects::comm::{create, hints};
use crate::objects::errhandler::{self, ErrhandlerKind, ErrorObject};
use crate::objects::group::ERR_GROUP;
use crate::objects::lookup::{from_fortran, to_fortran};
use crate::objects::session::{self, ERR_SESSION, SETS};
use crate::objects::{comm, group, info, objects};
use crate::{cut, drained, requests, world};
use std::ffi::{CStr, c_char, c_int};
use understudy_catalogue::message;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

/// Completes a procedure on a session.
///
/// An error is passed to the session's error handler. Without a valid session, it is handled as an
/// error without an object.
fn finish(
    rt: &Runtime,
    procedure: Proc,
    session: VirtSession,
    outcome: Result<(), c_int>,
) -> c_int {
    match outcome {
        Ok(()) => SUCCESS,
        Err(rc) if session::index(rt, session).is_some() => {
            handle_error_on(rt, procedure, rc, ErrorObject::Session(session))
        }
        Err(rc) => handle_error(rt, procedure, rc, None),
    }
}

fn index_of(rt: &Runtime, session: VirtSession) -> Result<u32, c_int> {
    session::index(rt, session).ok_or(ERR_SESSION)
}

/// Returns a C string of the program.
///
/// # Safety
/// `string` is a C string, or null.
unsafe fn text<'a>(string: *const c_char) -> Result<&'a CStr, c_int> {
    if string.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: the caller passes a C string; null is excluded above.
    Ok(unsafe { CStr::from_ptr(string) })
}

/// `MPI_Session_init`: the first call initialises MPI if `MPI_Init` has not.
pub unsafe extern "C" fn MPI_Session_init(
    info: VirtInfo,
    errhandler: VirtErrhandler,
    session: *mut VirtSession,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Session_init;
    if session.is_null() || !errhandler::is_valid_for(rt, errhandler, ErrhandlerKind::Session) {
        return handle_error_on(rt, procedure, ERR_ARG, ErrorObject::New(errhandler));
    }
    if world::is_initialised() && world::get(rt).finalized {
        log::error!("{}", message::SESSION_AFTER_FINALIZE);
        return handle_error_on(
            rt,
            procedure,
            ERR_UNSUPPORTED_OPERATION,
            ErrorObject::New(errhandler),
        );
    }
    let pairs = info::pairs(rt, info);
    let level = pairs.iter().find(|(key, _)| key == b"thread_level");
    let level = level
        .and_then(|(_, name)| environment::level_of(name))
        .unwrap_or(0);
    // SAFETY: MPI requires the program's address for the handle to be valid.
    let put = |handle| unsafe { session.write(handle) };
    let make = || session::create(rt, errhandler);
    // After a rollback to the first checkpoint, the program has a session already.
    match environment::initialise(rt, level, |_| put(session::first(rt).unwrap_or_else(make))) {
        Some(rc) => rc,
        None => {
            put(make());
            SUCCESS
        }
    }
}

pub unsafe extern "C" fn MPI_Session_finalize(session: *mut VirtSession) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Session_finalize;
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let Some(handle) = (!session.is_null()).then(|| unsafe { *session }) else {
        return handle_error(rt, procedure, ERR_ARG, None);
    };
    let outcome = index_of(rt, handle).map(|index| session::remove(rt, index));
    requests::detach(rt, handle.into());
    if outcome.is_ok() {
        // SAFETY: MPI requires the program's address of a handle to be valid.
        unsafe { session.write(session::null_handle(rt)) };
    }
    finish(rt, procedure, handle, outcome)
}

/// `MPI_Session_get_info`: the only hint is the thread level (11.3.1).
pub unsafe extern "C" fn MPI_Session_get_info(
    session: VirtSession,
    info_used: *mut VirtInfo,
) -> c_int {
    let rt = runtime();
    let level = (b"thread_level".to_vec(), environment::level_name().to_vec());
    // SAFETY: MPI requires the program's argument to be valid.
    let outcome = index_of(rt, session).and_then(|_| unsafe { put_info(rt, info_used, level) });
    finish(rt, Proc::MPI_Session_get_info, session, outcome)
}

/// Writes a new info object with one pair.
///
/// # Safety
/// `info_used` is the program's address for the handle, or null.
unsafe fn put_info(
    rt: &Runtime,
    info_used: *mut VirtInfo,
    pair: (Vec<u8>, Vec<u8>),
) -> Result<(), c_int> {
    if info_used.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: `info_used` is the program's address for the handle, or null.
    unsafe { put(info_used, info::create(rt, &[pair])?) }
}

/// `MPI_Session_set_info`: hints may be ignored.
pub unsafe extern "C" fn MPI_Session_set_info(session: VirtSession, info: VirtInfo) -> c_int {
    let rt = runtime();
    let outcome =
        index_of(rt, session).and_then(|_| info::index(rt, info).map(|_| ()).ok_or(info::ERR_INFO));
    finish(rt, Proc::MPI_Session_set_info, session, outcome)
}

pub unsafe extern "C" fn MPI_Session_get_num_psets(
    session: VirtSession,
    _info: VirtInfo,
    npset_names: *mut c_int,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    let outcome =
        index_of(rt, session).and_then(|_| unsafe { put(npset_names, SETS.len() as c_int) });
    finish(rt, Proc::MPI_Session_get_num_psets, session, outcome)
}

/// `MPI_Session_get_nth_pset`: truncates the name to the given length.
///
/// The length of the whole name, with the NUL, is always returned.
pub unsafe extern "C" fn MPI_Session_get_nth_pset(
    session: VirtSession,
    _info: VirtInfo,
    n: c_int,
    len: *mut c_int,
    pset_name: *mut c_char,
) -> c_int {
    let rt = runtime();
    let name = usize::try_from(n)
        .ok()
        .and_then(|n| SETS.get(n))
        .ok_or(ERR_ARG);
    let outcome = index_of(rt, session).and(name).and_then(|name| {
        let bytes = name.to_bytes();
        // SAFETY: MPI requires valid addresses, and room for `len` characters.
        unsafe {
            let room = usize::try_from(*len.as_ref().ok_or(ERR_ARG)?).unwrap_or(0);
            if room > 0 && pset_name.is_null() {
                return Err(ERR_ARG);
            }
            if room > 0 {
                put_text(pset_name, &bytes[..bytes.len().min(room - 1)]);
            }
            put(len, bytes.len() as c_int + 1)
        }
    });
    finish(rt, Proc::MPI_Session_get_nth_pset, session, outcome)
}

pub unsafe extern "C" fn MPI_Session_get_pset_info(
    session: VirtSession,
    pset_name: *const c_char,
    info_used: *mut VirtInfo,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    let outcome = index_of(rt, session).and_then(|_| unsafe {
        let members = session::members(rt, text(pset_name)?).ok_or(ERR_ARG)?;
        put_info(
            rt,
            info_used,
            (b"mpi_size".to_vec(), members.len().to_string().into_bytes()),
        )
    });
    finish(rt, Proc::MPI_Session_get_pset_info, session, outcome)
}

pub unsafe extern "C" fn MPI_Group_from_session_pset(
    session: VirtSession,
    pset_name: *const c_char,
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    let outcome = index_of(rt, session).and_then(|_| unsafe {
        put(newgroup, group::null_handle(rt))?;
        let members = session::members(rt, text(pset_name)?).ok_or(ERR_ARG)?;
        put(newgroup, group::create(rt, members, session.0 as u64)?)
    });
    finish(rt, Proc::MPI_Group_from_session_pset, session, outcome)
}

pub unsafe extern "C" fn MPI_Session_c2f(session: VirtSession) -> c_int {
    to_fortran(HandleKind::Session, session.0, || 0)
}

pub unsafe extern "C" fn MPI_Session_f2c(session: c_int) -> VirtSession {
    let rt = runtime();
    let exists = |index| objects(rt).sessions.get(index).is_some();
    match session {
        0 => session::null_handle(rt),
        session => VirtSession(from_fortran(
            rt,
            HandleKind::Session,
            session,
            exists,
            std::ptr::null_mut,
        )),
    }
}

/// Returns the members of a group, to which this process must belong.
fn members_with_me(rt: &Runtime, group: VirtGroup) -> Result<Vec<Worker>, c_int> {
    let members = group::members(rt, group).ok_or(ERR_GROUP)?;
    let me = comm::members(rt, comm::self_handle(rt)).unwrap_or_default();
    match me.iter().all(|me| members.contains(me)) {
        true => Ok(members),
        false => Err(ERR_GROUP),
    }
}

/// Tag that distinguishes simultaneous constructors of one group.
#[derive(Clone, Copy)]
struct ConstructorTag {
    /// Tag for the library; different string tags may have equal numbers.
    number: c_int,
    /// Hash of the string tag.
    name: u64,
}

/// Checks the arguments that all constructors from groups have.
///
/// # Safety
/// `tag` is a C string of the program, or null.
unsafe fn check_arguments(
    rt: &Runtime,
    tag: *const c_char,
    errhandler: VirtErrhandler,
    new: *mut VirtComm,
) -> Result<ConstructorTag, c_int> {
    // SAFETY: `tag` is a C string of the program, or null.
    let tag = unsafe { text(tag) }?;
    if new.is_null() || !errhandler::is_valid_for(rt, errhandler, ErrhandlerKind::Comm) {
        return Err(ERR_ARG);
    }
    Ok(ConstructorTag {
        number: create::tag_of(tag),
        name: xxh3_64(tag.to_bytes()),
    })
}

/// Runs a constructor in a handler, and registers the communicator.
///
/// A macro, because [`attempt!`] returns from the handler.
macro_rules! construct {
    ($rt:expr, $procedure:expr, $group:expr, $info:expr, $errhandler:expr, $newcomm:expr,
        $constructor:expr) => {{
        let (mut made, constructor) = (None, $constructor);
        let with_hints = |new: &mut RealComm| match constructor(new) {
            SUCCESS => {
                new.return_errors();
                hints::apply($rt, *new, &info::pairs($rt, $info))
            }
            rc => rc,
        };
        match attempt!(
            $rt,
            create::make(
                $rt,
                with_hints,
                |it| drained::is_comm_in_use($rt, it),
                &mut made
            )
        ) {
            SUCCESS => (),
            rc => return handle_error_on($rt, $procedure, rc, ErrorObject::New($errhandler)),
        }
        let Some(made) = made else {
            return handle_error_on($rt, $procedure, ERR_ARG, ErrorObject::New($errhandler));
        };
        let new = create::register($rt, made, comm::world_handle($rt));
        drained::drop_on($rt, new);
        comm::set_errhandler($rt, new, $errhandler.0 as u64);
        let session = group::session($rt, $group);
        if let Some(mut comm) = comm::get_mut($rt, new) {
            comm.session = session;
        }
        // SAFETY: null is excluded above; MPI requires any other address to be valid.
        unsafe { $newcomm.write(new) };
        SUCCESS
    }};
}

pub unsafe extern "C" fn MPI_Comm_create_from_group(
    group: VirtGroup,
    tag: *const c_char,
    info: VirtInfo,
    errhandler: VirtErrhandler,
    newcomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_create_from_group;
    // SAFETY: MPI requires the program's arguments to be valid.
    let tag = match unsafe { check_arguments(rt, tag, errhandler, newcomm) } {
        Ok(_) if group == group::empty_handle(rt) => {
            // SAFETY: null is excluded above; MPI requires any other address to be valid.
            unsafe { newcomm.write(comm::null_handle(rt)) };
            return SUCCESS;
        }
        Ok(tag) => members_with_me(rt, group).map(|_| tag),
        Err(rc) => Err(rc),
    };
    match tag {
        Ok(tag) => {
            outcome!(cut::assemble(rt, || assembly_sides::of_group(
                rt, None, group, tag.name
            )));
            construct!(
                rt,
                procedure,
                group,
                info,
                errhandler,
                newcomm,
                |new: &mut RealComm| { create::create_of_group(rt, group, tag.number, new) }
            )
        }
        Err(rc) => handle_error_on(rt, procedure, rc, ErrorObject::New(errhandler)),
    }
}

fn member_at(members: &[Worker], rank: c_int) -> Result<Worker, c_int> {
    let rank = usize::try_from(rank).map_err(|_| ERR_RANK)?;
    members.get(rank).copied().ok_or(ERR_RANK)
}

/// Returns the leader of the remote group, at the local leader; `None` at other members.
fn other_leader(
    rt: &Runtime,
    (local, leader): (&[Worker], Worker),
    (remote_group, remote_leader): (VirtGroup, c_int),
) -> Result<Option<Worker>, c_int> {
    if comm::members(rt, comm::self_handle(rt)).as_deref() != Some(&[leader]) {
        return Ok(None);
    }
    let remote = group::members(rt, remote_group).ok_or(ERR_GROUP)?;
    if remote.iter().any(|member| local.contains(member)) {
        return Err(ERR_GROUP);
    }
    member_at(&remote, remote_leader).map(Some)
}

pub unsafe extern "C" fn MPI_Intercomm_create_from_groups(
    local_group: VirtGroup,
    local_leader: c_int,
    remote_group: VirtGroup,
    remote_leader: c_int,
    tag: *const c_char,
    info: VirtInfo,
    errhandler: VirtErrhandler,
    newintercomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Intercomm_create_from_groups;
    let local = members_with_me(rt, local_group)
        .and_then(|members| member_at(&members, local_leader).map(|leader| (members, leader)));
    // SAFETY: MPI requires the program's arguments to be valid.
    let tag = unsafe { check_arguments(rt, tag, errhandler, newintercomm) };
    match local.and_then(|local| Ok((local, tag?))) {
        Ok(((members, leader), tag)) => {
            let remote = (remote_group, remote_leader);
            let leader = other_leader(rt, (&members, leader), remote);
            let local = (local_group, local_leader);
            outcome!(cut::assemble(rt, || {
                let leader = leader.ok().flatten();
                assembly_sides::of_groups(rt, local, leader, tag.name)
            }));
            construct!(
                rt,
                procedure,
                local_group,
                info,
                errhandler,
                newintercomm,
                |new: &mut RealComm| {
                    create::create_between_groups(rt, local, leader, tag.number, new)
                }
            )
        }
        Err(rc) => handle_error_on(rt, procedure, rc, ErrorObject::New(errhandler)),
    }
}
