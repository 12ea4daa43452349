//! Error handlers of objects: set, returned, called.
#![allow(unsafe_code)]

use super::errhandler_entries::{FATAL, RETURN, action, is_valid_for, kind_of, null_file};
use super::error_handler::{ErrhandlerKind, ErrorAction};
use crate::Runtime;
use crate::abi;
use crate::arch::{call_program, callback_code};
use crate::errors::{ERR_ARG, SUCCESS};
use crate::generated::HandleKind;
use crate::handles::{VirtComm, VirtErrhandler, VirtFile, VirtSession, VirtWin};
use crate::objects::lookup::created_index;
use crate::objects::{comm, file, objects, objects_mut, session, window};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;

/// Object on which an error occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorObject {
    Comm(VirtComm),
    File(VirtFile),
    /// `MPI_FILE_NULL`: errors without a file.
    NoFile,
    Win(VirtWin),
    Session(VirtSession),
    /// Communicator or session that is being created, with this error handler.
    New(VirtErrhandler),
}

impl ErrorObject {
    fn kind(self, rt: &Runtime) -> ErrhandlerKind {
        match self {
            ErrorObject::New(errhandler) => kind_of(rt, errhandler).unwrap_or(ErrhandlerKind::Comm),
            ErrorObject::Session(_) => ErrhandlerKind::Session,
            ErrorObject::Comm(_) => ErrhandlerKind::Comm,
            ErrorObject::File(_) | ErrorObject::NoFile => ErrhandlerKind::File,
            ErrorObject::Win(_) => ErrhandlerKind::Win,
        }
    }

    /// Returns the error handler that is set.
    ///
    /// Errors of files are returned unless the program sets another handler (14.7).
    fn errhandler(self, rt: &Runtime) -> VirtErrhandler {
        let (handle, default) = match self {
            ErrorObject::Comm(comm) => (comm::errhandler(rt, comm), &FATAL),
            ErrorObject::File(file) => (
                file::get(rt, file).map_or(0, |file| file.errhandler),
                &RETURN,
            ),
            ErrorObject::NoFile => (objects(rt).file_errhandler, &RETURN),
            ErrorObject::Win(win) => (window::errhandler(rt, win), &FATAL),
            ErrorObject::Session(session) => (session::errhandler(rt, session), &FATAL),
            ErrorObject::New(errhandler) => (errhandler.0 as u64, &FATAL),
        };
        match handle {
            0 => VirtErrhandler(default.get(rt)),
            handle => VirtErrhandler(handle as *mut c_void),
        }
    }

    /// Returns the action that follows an error.
    pub fn action(self, rt: &Runtime) -> ErrorAction {
        action(rt, self.errhandler(rt)).unwrap_or(ErrorAction::Fatal)
    }

    /// Sets the error handler, if it is valid for this kind of object.
    pub fn set(self, rt: &Runtime, errhandler: VirtErrhandler) -> c_int {
        if !is_valid_for(rt, errhandler, self.kind(rt)) {
            return ERR_ARG;
        }
        match self {
            ErrorObject::Comm(comm) => comm::set_errhandler(rt, comm, errhandler.0 as u64),
            ErrorObject::File(file) => {
                if let Some(mut file) = file::get_mut(rt, file) {
                    file.errhandler = errhandler.0 as u64;
                }
            }
            ErrorObject::NoFile => objects_mut(rt).file_errhandler = errhandler.0 as u64,
            ErrorObject::Win(win) => {
                if let Some(mut window) = window::get_mut(rt, win) {
                    window.errhandler = errhandler.0 as u64;
                }
            }
            ErrorObject::Session(session) => {
                if let Some(mut session) = session::get_mut(rt, session) {
                    session.errhandler = errhandler.0 as u64;
                }
            }
            ErrorObject::New(_) => {}
        }
        SUCCESS
    }

    /// Returns one more handle of the object's error handler.
    pub fn get(self, rt: &Runtime) -> VirtErrhandler {
        let handle = self.errhandler(rt);
        if let Some(index) = created_index(HandleKind::Errhandler, handle.0)
            && let Some(entry) = objects_mut(rt).errhandlers.get_mut(index)
        {
            entry.handles += 1;
        }
        handle
    }

    /// Calls an error handler of the program for an error.
    pub fn call(self, rt: &Runtime, function: u64, mut code: c_int) {
        let mut handle = match self {
            ErrorObject::Comm(comm) => abi::handle_for_program(rt, HandleKind::Comm, comm.0 as u64),
            ErrorObject::File(file) => abi::handle_for_program(rt, HandleKind::File, file.0 as u64),
            ErrorObject::NoFile => {
                abi::handle_for_program(rt, HandleKind::File, null_file(rt).0 as u64)
            }
            ErrorObject::Win(win) => abi::handle_for_program(rt, HandleKind::Win, win.0 as u64),
            ErrorObject::Session(session) => {
                abi::handle_for_program(rt, HandleKind::Session, session.0 as u64)
            }
            ErrorObject::New(_) if self.kind(rt) == ErrhandlerKind::Session => {
                abi::handle_for_program(rt, HandleKind::Session, session::null_handle(rt).0 as u64)
            }
            ErrorObject::New(_) => {
                abi::handle_for_program(rt, HandleKind::Comm, comm::null_handle(rt).0 as u64)
            }
        };
        code = abi::integer_for_program(Domain::ErrorCode, code);
        // SAFETY: the program has called the MPI procedure that runs. The program's function takes
        // pointers to a handle and a code, and must not use the further arguments (9.3.1).
        unsafe {
            let (address, context) = callback_code(function);
            call_program(
                address,
                [&raw mut handle as u64, &raw mut code as u64, 0, 0, context],
            );
        };
    }
}
