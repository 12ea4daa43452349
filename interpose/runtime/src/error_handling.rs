//! Errors that are reported to the program: calls of its error handlers, and refusals.
//!
//! Real communicators always return errors. An error that is not the failure of a process is passed
//! to the error handler that the program has set (MPI 4.1, section 9.3). The default handler ends
//! the job with a message, as in the real library.

#![allow(unsafe_code)]

use crate::Runtime;
use crate::abi::is_foreign_abi;
use crate::arch::Rewound;
use crate::errors::{ERR_UNSUPPORTED_OPERATION, SUCCESS};
use crate::generated::{Proc, SLOT_NAMES};
use crate::handles::{VirtComm, VirtWin};
use crate::objects::errhandler::{ErrorAction, ErrorObject};
use crate::objects::{comm, objects, window};
use crate::{abort, recovery, system_calls};
use std::ffi::c_int;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_catalogue::message;
use understudy_mpi::{call, library};

/// Raises an error, as the standard calls it, if `rc` is an error code.
///
/// `rc` is the return code of `procedure`. An error is passed to the error handler of `comm`, or to
/// that of errors without an object (`without_object`). Returns the return code for the program.
#[inline]
pub fn finish(rt: &Runtime, procedure: Proc, rc: c_int, comm: Option<VirtComm>) -> c_int {
    if rc == SUCCESS {
        SUCCESS
    } else {
        handle_error(rt, procedure, rc, comm)
    }
}

/// Implements [`finish`] for a window.
///
/// The error handler of an existing window gets the error, unless MPICH would not use the handler.
#[inline]
pub fn finish_win(rt: &Runtime, procedure: Proc, rc: c_int, win: VirtWin) -> c_int {
    match rc {
        SUCCESS => SUCCESS,
        rc if window::index(rt, win).is_some_and(|_| uses_handler(window::errhandler(rt, win))) => {
            handle_error_on(rt, procedure, rc, ErrorObject::Win(win))
        }
        rc => handle_error(rt, procedure, rc, None),
    }
}

/// Implements [`finish`] for an error.
#[cold]
pub fn handle_error(rt: &Runtime, procedure: Proc, rc: c_int, comm: Option<VirtComm>) -> c_int {
    // MPI_COMM_NULL has no error handler.
    let has_own =
        |comm| comm::index(rt, comm).is_some_and(|_| uses_handler(comm::errhandler(rt, comm)));
    let comm = comm
        .filter(|&comm| has_own(comm))
        .unwrap_or_else(|| without_object(rt));
    handle_error_on(rt, procedure, rc, ErrorObject::Comm(comm))
}

/// True if the error handler of an object is used.
///
/// With MPICH, the error handler is used only if the program has set one, for the object or for
/// the communicator from which the object was created.
fn uses_handler(errhandler: u64) -> bool {
    errhandler != 0 || !is_foreign_abi()
}

/// Returns the communicator whose error handler receives errors without an object.
///
/// MPI 4 has MPI_COMM_SELF; earlier versions had MPI_COMM_WORLD. Open MPI 5 uses MPI_COMM_SELF,
/// unless its compatibility with MPI 3 is on. Open MPI 4, MPICH up to 4.1, and Intel MPI use
/// MPI_COMM_WORLD. Later versions of MPICH use MPI_COMM_SELF if the program has set an error
/// handler for it, otherwise MPI_COMM_WORLD.
fn without_object(rt: &Runtime) -> VirtComm {
    let (world, own) = (comm::world_handle(rt), comm::self_handle(rt));
    let is_own = match is_foreign_abi() {
        true => library::mpich_version() >= (4, 2) && comm::errhandler(rt, own) != 0,
        false => {
            let mpi3_compatibility = library::symbol(c"ompi_mpi_compat_mpi3").cast::<u8>();
            // SAFETY: a variable of the library; null is excluded first.
            !mpi3_compatibility.is_null() && unsafe { mpi3_compatibility.read() } == 0
        }
    };
    if is_own { own } else { world }
}

/// True if MPI_SUCCESS is returned after the program's error handler: MPICH from 4.3 on.
fn handlers_clear_errors() -> bool {
    library::mpich_version() >= (4, 3)
}

/// Passes an error to the error handler of this object.
pub fn handle_error_on(rt: &Runtime, procedure: Proc, rc: c_int, object: ErrorObject) -> c_int {
    // Any call may have been abandoned because another process has failed.
    if rc == call::ABANDONED && call::is_over() {
        return match recovery::check(rt, rc) {
            Err(Rewound) => SUCCESS,
            Ok(_) => abort::abort_unprotected(rt),
        };
    }
    match object.action(rt) {
        ErrorAction::Return => {}
        ErrorAction::Call(function) => {
            object.call(rt, function, rc);
            if handlers_clear_errors() {
                return SUCCESS;
            }
        }
        ErrorAction::Fatal | ErrorAction::Abort => {
            let error = message::error_is_fatal(procedure.name(), text(rt, rc));
            fatal(rt, rc, error)
        }
        ErrorAction::Throw => {
            let error = message::cxx_exceptions(procedure.name(), text(rt, rc));
            fatal(rt, rc, error)
        }
    }
    rc
}

/// Returns the text of an error class or code, including those of the program.
fn text(rt: &Runtime, rc: c_int) -> String {
    match objects(rt).error_codes.text(rc) {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => understudy_mpi::error::text(rc),
    }
}

fn fatal(rt: &Runtime, rc: c_int, error: impl Display) -> ! {
    system_calls::print_message(error);
    abort::abort(rt, rc)
}

/// Refuses a procedure that cannot be protected; logs the refusal once for each procedure.
pub fn unsupported(rt: &Runtime, procedure: Proc) -> c_int {
    log_unsupported(procedure);
    handle_error(rt, procedure, ERR_UNSUPPORTED_OPERATION, None)
}

fn log_unsupported(procedure: Proc) {
    static LOGGED: [AtomicBool; crate::generated::PROC_COUNT] =
        [const { AtomicBool::new(false) }; crate::generated::PROC_COUNT];
    if !LOGGED[procedure as usize].swap(true, Ordering::Relaxed) {
        log::error!("{}", message::unsupported_procedure(procedure.name()));
    }
}

/// Refuses a call of an internal function of the real library, which cannot be protected.
pub fn refused(slot: u32) -> c_int {
    let name = SLOT_NAMES
        .get(slot as usize)
        .map_or("?".into(), |name| name.to_string_lossy());
    log::error!("{}", message::internal_procedure(name));
    ERR_UNSUPPORTED_OPERATION
}

/// Ends the job after a call from a thread that may not call MPI.
///
/// Few programs check error codes, so returning one is not sufficient.
pub fn wrong_thread(slot: u32) -> ! {
    let name = SLOT_NAMES
        .get(slot as usize)
        .map_or("?".into(), |name| name.to_string_lossy());
    system_calls::print_message(message::undeclared_thread(name));
    system_calls::exit_now(understudy_catalogue::exit_status::REFUSED)
}
