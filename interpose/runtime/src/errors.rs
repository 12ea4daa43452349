//! Errors of MPI procedures: what the program's error handler says happens, and refusals.
//!
//! Real communicators always return errors. An error that is not the failure of a process goes to the error handler that
//! the program has set (MPI 4.1, chapter 9.3); the default one ends the job with a message, as in the real library.
#![allow(unsafe_code)]

use crate::generated::{Proc, SLOT_NAMES, real};
use crate::handles::{VirtComm, real_comm};
use crate::objects::{comm, errhandler, objects};
use crate::real_types::RealComm;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

/// `MPI_SUCCESS`
pub const SUCCESS: c_int = 0;
/// `MPI_ERR_BUFFER`
pub const ERR_BUFFER: c_int = 1;
/// `MPI_ERR_COUNT`
pub const ERR_COUNT: c_int = 2;
/// `MPI_ERR_TYPE`
pub const ERR_TYPE: c_int = 3;
/// `MPI_ERR_TAG`
pub const ERR_TAG: c_int = 4;
/// `MPI_ERR_COMM`
pub const ERR_COMM: c_int = 5;
/// `MPI_ERR_RANK`
pub const ERR_RANK: c_int = 6;
/// `MPI_ERR_REQUEST`
pub const ERR_REQUEST: c_int = 7;
/// `MPI_ERR_OP`
pub const ERR_OP: c_int = 10;
/// `MPI_ERR_ARG`
pub const ERR_ARG: c_int = 13;
/// `MPI_ERR_OTHER`
pub const ERR_OTHER: c_int = 16;
/// `MPI_ERR_INTERN`
pub const ERR_INTERN: c_int = 17;
/// `MPI_ERR_IN_STATUS`
pub const ERR_IN_STATUS: c_int = 18;
/// `MPI_ERR_PENDING`
pub const ERR_PENDING: c_int = 19;
/// `MPI_ERR_UNSUPPORTED_OPERATION`
pub const ERR_UNSUPPORTED_OPERATION: c_int = 52;

/// What the standard calls *raising*: `rc` is the outcome of `procedure`; an error goes to the error handler of `comm`,
/// or of the world where there is none. Returns what the procedure returns.
#[inline]
pub fn finish(procedure: Proc, rc: c_int, comm: Option<VirtComm>) -> c_int {
    if rc == SUCCESS {
        SUCCESS
    } else {
        raise(procedure, rc, comm)
    }
}

/// [`finish`] for an error.
#[cold]
pub fn raise(procedure: Proc, rc: c_int, comm: Option<VirtComm>) -> c_int {
    let world = comm::world_handle();
    let comm = comm.filter(|&comm| !real_comm(comm).0.is_null()).unwrap_or(world);
    match errhandler::of_comm(comm) {
        errhandler::Action::Return => rc,
        errhandler::Action::Call(function) => errhandler::call(function, comm, rc),
        errhandler::Action::Fatal | errhandler::Action::Abort => fatal(procedure, rc),
    }
}

/// The text of an error class or code.
pub fn text(rc: c_int) -> String {
    if let Some(text) = objects().error_codes.text(rc) {
        return String::from_utf8_lossy(text).into_owned();
    }
    let mut buffer = [0u8; 512];
    let mut length = 0;
    // SAFETY: MPI_Error_string writes at most MPI_MAX_ERROR_STRING (256) bytes.
    unsafe { real::PMPI_Error_string(rc, buffer.as_mut_ptr().cast::<c_char>(), &mut length) };
    String::from_utf8_lossy(&buffer[..length.clamp(0, 256) as usize]).into_owned()
}

fn fatal(procedure: Proc, rc: c_int) -> ! {
    crate::sys::say(format_args!(
        "{} failed: {}; the error handler is MPI_ERRORS_ARE_FATAL, the job ends",
        procedure.name(),
        text(rc)
    ));
    crate::world::abort(rc)
}

/// A procedure that cannot be protected: it fails, and says so once.
pub fn unsupported(procedure: Proc) -> c_int {
    static SAID: [AtomicBool; crate::generated::PROC_COUNT] =
        [const { AtomicBool::new(false) }; crate::generated::PROC_COUNT];
    if !SAID[procedure as usize].swap(true, Ordering::Relaxed) {
        log::error!(
            "{} is not supported under protection and fails with MPI_ERR_UNSUPPORTED_OPERATION; \
             run the program with UNDERSTUDY_DISABLE=1 if it needs it",
            procedure.name()
        );
    }
    raise(procedure, ERR_UNSUPPORTED_OPERATION, None)
}

/// An internal symbol of the real library that was called under protection.
pub fn refused(slot: u32) -> c_int {
    let name = SLOT_NAMES
        .get(slot as usize)
        .map_or("?".into(), |name| name.to_string_lossy());
    log::error!(
        "{name} is internal to Open MPI and not supported under protection; run the program with UNDERSTUDY_DISABLE=1 if it needs it"
    );
    ERR_UNSUPPORTED_OPERATION
}

/// A call from a thread other than the one that initialised MPI.
pub extern "C" fn wrong_thread(slot: u32) -> c_int {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        let name = SLOT_NAMES
            .get(slot as usize)
            .map_or("?".into(), |name| name.to_string_lossy());
        crate::sys::say(format_args!(
            "{name} was called by a thread that did not initialise MPI; only MPI_THREAD_SERIALIZED and below by one thread is supported"
        ));
    }
    ERR_OTHER
}

/// Sets a real communicator to return its errors.
pub fn returns_errors(comm: RealComm) {
    let handler = crate::handles::real_errhandler(crate::handles::VirtErrhandler(crate::handles::predefined_handle(
        "ompi_mpi_errors_return",
    )));
    // SAFETY: a communicator of ours and the predefined handler.
    unsafe { real::PMPI_Comm_set_errhandler(comm, handler) };
}
