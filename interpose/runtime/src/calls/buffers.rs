//! Buffers for buffered sends (MPI 4.1, 3.6): of the process, of communicators and of sessions. They are only counted with.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::outcome;
use crate::abi::{is_foreign as is_mpich, standard_version};
use crate::arch::Rewound;
use crate::calls::runtime;
use crate::errors::{ERR_ARG, ERR_BUFFER, ERR_COMM, ERR_OTHER, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtRequest, VirtSession};
use crate::objects::comm;
use crate::objects::errhandler::Object;
use crate::objects::session::{self, ERR_SESSION};
use crate::raise::{finish, raise_on};
use crate::recovery::Runtime;
use crate::requests::{Attached, Kind, Owner, State};
use crate::{checkpoint, completion, cut, requests};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::{current, limit};
use understudy_mpi::real_types::RealRequest;

/// `MPI_BUFFER_AUTOMATIC` of MPICH and of the standard ABI, where no buffer can be: MPI provides one, however large it has to be.
const AUTOMATIC: [u64; 2] = [-2i64 as u64, 2];

/// The owner as a handle of the program.
fn handles(owner: Owner) -> (Option<VirtComm>, Option<VirtSession>) {
    match owner {
        Owner::Process => (None, None),
        Owner::Comm(comm) => (Some(VirtComm(comm as *mut c_void)), None),
        Owner::Session(session) => (None, Some(VirtSession(session as *mut c_void))),
    }
}

/// Whether there is such an owner, and what is attached to it.
fn attached(rt: &Runtime, owner: Owner) -> Result<Option<Attached>, c_int> {
    match handles(owner) {
        (Some(comm), _) if comm::index(rt, comm).is_none() => Err(ERR_COMM),
        (_, Some(session)) if session::index(rt, session).is_none() => Err(ERR_SESSION),
        _ => Ok(requests::attached(rt, owner)),
    }
}

/// An error goes to the error handler of the owner, or to that of the world.
fn end(rt: &Runtime, procedure: Proc, owner: Owner, outcome: Result<(), c_int>) -> c_int {
    match (outcome, handles(owner)) {
        (Ok(()), _) => SUCCESS,
        (Err(rc), (_, Some(session))) if rc != ERR_SESSION => {
            raise_on(rt, procedure, rc, Object::Session(session))
        }
        (Err(rc), (comm, _)) => finish(rt, procedure, rc, comm),
    }
}

fn attach(rt: &Runtime, procedure: Proc, owner: Owner, buffer: *mut c_void, size: i64) -> c_int {
    let address = buffer as u64;
    let outcome = attached(rt, owner).and_then(|before| {
        let is_automatic = AUTOMATIC.contains(&address);
        // MPICH wants room for what each message takes besides.
        let least = current().map_or(0, |_| limit("MPI_BSEND_OVERHEAD") as i64);
        match before {
            _ if address == 0 || (size < 0 && !is_automatic) => return Err(ERR_ARG),
            Some(_) if is_mpich() && standard_version() >= (4, 1) => return Err(ERR_OTHER),
            Some(_) => return Err(ERR_BUFFER),
            None if size < least && !is_automatic => return Err(ERR_BUFFER),
            None => {}
        }
        let size = if is_automatic { i64::MAX } else { size };
        requests::buffers_mut(rt).push(Attached {
            owner,
            address,
            size,
        });
        Ok(())
    });
    end(rt, procedure, owner, outcome)
}

/// Waits until nothing of a buffer is taken.
fn wait(rt: &Runtime, owner: Owner) -> Result<(), Rewound> {
    cut::here(rt)?;
    while requests::taken(rt, owner) > 0 {
        completion::reap_orphans(rt)?;
        cut::meanwhile(rt)?;
        checkpoint::poll(rt)?;
    }
    Ok(())
}

/// # Safety
/// The program's places for the address and the size.
unsafe fn detach<Size: TryFrom<i64>>(
    rt: &Runtime,
    procedure: Proc,
    owner: Owner,
    buffer: *mut c_void,
    size: *mut Size,
) -> c_int {
    outcome!(wait(rt, owner));
    let nothing = Attached {
        owner,
        address: 0,
        size: 0,
    };
    let found = attached(rt, owner).and_then(|buffer| match buffer {
        None if is_mpich() => Ok(nothing),
        buffer => buffer.ok_or(ERR_BUFFER),
    });
    let outcome = found.and_then(|attached| {
        let is_automatic = AUTOMATIC.contains(&attached.address);
        let bytes = Size::try_from(if is_automatic { 0 } else { attached.size });
        let bytes = bytes.map_err(|_| ERR_BUFFER)?;
        requests::detach(rt, owner);
        // SAFETY: the caller's promise.
        unsafe {
            buffer.cast::<u64>().write(attached.address);
            size.write(bytes);
        }
        Ok(())
    });
    end(rt, procedure, owner, outcome)
}

/// Where nothing is attached there is nothing to wait for.
fn flush(rt: &Runtime, procedure: Proc, owner: Owner) -> c_int {
    outcome!(wait(rt, owner));
    end(rt, procedure, owner, attached(rt, owner).map(drop))
}

/// What is sent are copies, but the request ends when all of them have been, as the buffer has room for others then.
///
/// # Safety
/// The program's place for the request.
unsafe fn begin_flush(
    rt: &Runtime,
    procedure: Proc,
    owner: Owner,
    request: *mut VirtRequest,
) -> c_int {
    let outcome = attached(rt, owner).map(|_| {
        let none = RealRequest(std::ptr::null_mut());
        let flush = requests::add(
            rt,
            comm::self_handle(rt),
            Kind::Flush(owner),
            State::Open,
            none,
        );
        // SAFETY: the caller's promise.
        unsafe { request.write(flush) };
    });
    end(rt, procedure, owner, outcome)
}

pub unsafe extern "C" fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) -> c_int {
    attach(
        runtime(),
        Proc::MPI_Buffer_attach,
        Owner::Process,
        buffer,
        size.into(),
    )
}

pub unsafe extern "C" fn MPI_Buffer_detach(buffer: *mut c_void, size: *mut c_int) -> c_int {
    // SAFETY: the program's places.
    unsafe {
        detach(
            runtime(),
            Proc::MPI_Buffer_detach,
            Owner::Process,
            buffer,
            size,
        )
    }
}

pub unsafe extern "C" fn MPI_Buffer_attach_c(buffer: *mut c_void, size: i64) -> c_int {
    attach(
        runtime(),
        Proc::MPI_Buffer_attach_c,
        Owner::Process,
        buffer,
        size,
    )
}

pub unsafe extern "C" fn MPI_Buffer_detach_c(buffer: *mut c_void, size: *mut i64) -> c_int {
    // SAFETY: the program's places.
    unsafe {
        detach(
            runtime(),
            Proc::MPI_Buffer_detach_c,
            Owner::Process,
            buffer,
            size,
        )
    }
}

pub unsafe extern "C" fn MPI_Buffer_flush() -> c_int {
    flush(runtime(), Proc::MPI_Buffer_flush, Owner::Process)
}

pub unsafe extern "C" fn MPI_Buffer_iflush(request: *mut VirtRequest) -> c_int {
    // SAFETY: the program's place.
    unsafe { begin_flush(runtime(), Proc::MPI_Buffer_iflush, Owner::Process, request) }
}

pub unsafe extern "C" fn MPI_Comm_attach_buffer(
    comm: VirtComm,
    buffer: *mut c_void,
    size: c_int,
) -> c_int {
    attach(
        runtime(),
        Proc::MPI_Comm_attach_buffer,
        comm.into(),
        buffer,
        size.into(),
    )
}

pub unsafe extern "C" fn MPI_Comm_detach_buffer(
    comm: VirtComm,
    buffer: *mut c_void,
    size: *mut c_int,
) -> c_int {
    // SAFETY: the program's places.
    unsafe {
        detach(
            runtime(),
            Proc::MPI_Comm_detach_buffer,
            comm.into(),
            buffer,
            size,
        )
    }
}

pub unsafe extern "C" fn MPI_Comm_attach_buffer_c(
    comm: VirtComm,
    buffer: *mut c_void,
    size: i64,
) -> c_int {
    attach(
        runtime(),
        Proc::MPI_Comm_attach_buffer_c,
        comm.into(),
        buffer,
        size,
    )
}

pub unsafe extern "C" fn MPI_Comm_detach_buffer_c(
    comm: VirtComm,
    buffer: *mut c_void,
    size: *mut i64,
) -> c_int {
    // SAFETY: the program's places.
    unsafe {
        detach(
            runtime(),
            Proc::MPI_Comm_detach_buffer_c,
            comm.into(),
            buffer,
            size,
        )
    }
}

pub unsafe extern "C" fn MPI_Comm_flush_buffer(comm: VirtComm) -> c_int {
    flush(runtime(), Proc::MPI_Comm_flush_buffer, comm.into())
}

pub unsafe extern "C" fn MPI_Comm_iflush_buffer(
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    // SAFETY: the program's place.
    unsafe {
        begin_flush(
            runtime(),
            Proc::MPI_Comm_iflush_buffer,
            comm.into(),
            request,
        )
    }
}

pub unsafe extern "C" fn MPI_Session_attach_buffer(
    session: VirtSession,
    buffer: *mut c_void,
    size: c_int,
) -> c_int {
    attach(
        runtime(),
        Proc::MPI_Session_attach_buffer,
        session.into(),
        buffer,
        size.into(),
    )
}

pub unsafe extern "C" fn MPI_Session_detach_buffer(
    session: VirtSession,
    buffer: *mut c_void,
    size: *mut c_int,
) -> c_int {
    // SAFETY: the program's places.
    unsafe {
        detach(
            runtime(),
            Proc::MPI_Session_detach_buffer,
            session.into(),
            buffer,
            size,
        )
    }
}

pub unsafe extern "C" fn MPI_Session_attach_buffer_c(
    session: VirtSession,
    buffer: *mut c_void,
    size: i64,
) -> c_int {
    attach(
        runtime(),
        Proc::MPI_Session_attach_buffer_c,
        session.into(),
        buffer,
        size,
    )
}

pub unsafe extern "C" fn MPI_Session_detach_buffer_c(
    session: VirtSession,
    buffer: *mut c_void,
    size: *mut i64,
) -> c_int {
    // SAFETY: the program's places.
    unsafe {
        detach(
            runtime(),
            Proc::MPI_Session_detach_buffer_c,
            session.into(),
            buffer,
            size,
        )
    }
}

pub unsafe extern "C" fn MPI_Session_flush_buffer(session: VirtSession) -> c_int {
    flush(runtime(), Proc::MPI_Session_flush_buffer, session.into())
}

pub unsafe extern "C" fn MPI_Session_iflush_buffer(
    session: VirtSession,
    request: *mut VirtRequest,
) -> c_int {
    // SAFETY: the program's place.
    unsafe {
        begin_flush(
            runtime(),
            Proc::MPI_Session_iflush_buffer,
            session.into(),
            request,
        )
    }
}
