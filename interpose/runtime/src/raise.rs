//! Errors that the program is to see: what its error handler says happens, and refusals.
//!
//! Real communicators always return errors. An error that is not the failure of a process goes to the error handler that
//! the program has set (MPI 4.1, chapter 9.3); the default one ends the job with a message, as in the real library.

use crate::errors::{ERR_OTHER, ERR_UNSUPPORTED_OPERATION, SUCCESS};
use crate::generated::{Proc, SLOT_NAMES};
use crate::handles::{VirtComm, real_comm};
use crate::objects::{comm, errhandler, objects};
use crate::{errors, recovery, sys};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The text of an error class or code, the program's own ones included.
fn text(rc: c_int) -> String {
    match objects().error_codes.text(rc) {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => errors::text(rc),
    }
}

fn fatal(procedure: Proc, rc: c_int) -> ! {
    sys::say(format_args!(
        "{} failed: {}; the error handler is MPI_ERRORS_ARE_FATAL, the job ends",
        procedure.name(),
        text(rc)
    ));
    recovery::abort(rc)
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
pub fn wrong_thread(slot: u32) -> c_int {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        let name = SLOT_NAMES
            .get(slot as usize)
            .map_or("?".into(), |name| name.to_string_lossy());
        sys::say(format_args!(
            "{name} was called by a thread that did not initialise MPI; only MPI_THREAD_SERIALIZED and below by one thread is supported"
        ));
    }
    ERR_OTHER
}
