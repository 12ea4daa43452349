//! Error handlers, error classes and codes (MPI 4.1, 9.3 to 9.5).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::put_text;
use crate::Runtime;
use crate::abi::is_foreign_abi;
use crate::calls::runtime;
use crate::error_handling::{finish, finish_win, handle_error, handle_error_on};
use crate::errors::{ERR_ARG, ERR_COMM, ERR_FILE, ERR_WIN, SUCCESS};
use crate::generated::callbacks::CommErrhandlerFn;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtErrhandler, VirtFile, VirtSession, VirtWin};
use crate::objects::errhandler::{ErrhandlerKind, ErrorCodes, ErrorObject};
use crate::objects::session::{self, ERR_SESSION};
use crate::objects::{comm, errhandler, file, objects, objects_mut, window};
use std::ffi::{CStr, c_char, c_int};
use understudy_mpi::abi::limit;

/// Handle of a kind of objects that have error handlers.
pub(super) trait HasErrhandler: Copy {
    /// Kind of the error handlers.
    const KIND: ErrhandlerKind;

    /// Acts on an existing object; an error is passed to the object's error handler.
    fn finish(self, rt: &Runtime, procedure: Proc, act: impl FnOnce(ErrorObject) -> c_int)
    -> c_int;
}

impl HasErrhandler for VirtComm {
    const KIND: ErrhandlerKind = ErrhandlerKind::Comm;

    fn finish(
        self,
        rt: &Runtime,
        procedure: Proc,
        act: impl FnOnce(ErrorObject) -> c_int,
    ) -> c_int {
        match comm::index(rt, self) {
            Some(_) => finish(rt, procedure, act(ErrorObject::Comm(self)), Some(self)),
            None => handle_error(rt, procedure, ERR_COMM, None),
        }
    }
}

impl HasErrhandler for VirtWin {
    const KIND: ErrhandlerKind = ErrhandlerKind::Win;

    fn finish(
        self,
        rt: &Runtime,
        procedure: Proc,
        act: impl FnOnce(ErrorObject) -> c_int,
    ) -> c_int {
        match window::index(rt, self) {
            Some(_) => finish_win(rt, procedure, act(ErrorObject::Win(self)), self),
            None => handle_error(rt, procedure, ERR_WIN, None),
        }
    }
}

impl HasErrhandler for VirtFile {
    const KIND: ErrhandlerKind = ErrhandlerKind::File;

    fn finish(
        self,
        rt: &Runtime,
        procedure: Proc,
        act: impl FnOnce(ErrorObject) -> c_int,
    ) -> c_int {
        let object = match self {
            file if file == errhandler::null_file(rt) => Ok(ErrorObject::NoFile),
            file if file::index(rt, file).is_some() => Ok(ErrorObject::File(file)),
            _ => Err(ERR_FILE),
        };
        match object.map_or_else(|rc| rc, act) {
            SUCCESS => SUCCESS,
            rc => handle_error_on(rt, procedure, rc, object.unwrap_or(ErrorObject::NoFile)),
        }
    }
}

impl HasErrhandler for VirtSession {
    const KIND: ErrhandlerKind = ErrhandlerKind::Session;

    fn finish(
        self,
        rt: &Runtime,
        procedure: Proc,
        act: impl FnOnce(ErrorObject) -> c_int,
    ) -> c_int {
        let object = ErrorObject::Session(self);
        match session::index(rt, self).map(|_| act(object)) {
            Some(SUCCESS) => SUCCESS,
            Some(rc) => handle_error_on(rt, procedure, rc, object),
            None => handle_error(rt, procedure, ERR_SESSION, None),
        }
    }
}

/// Implements `MPI_Comm_create_errhandler` and its variants, with callbacks of one form.
///
/// # Safety
/// `errhandler` is the program's address for the handle, or null.
pub(super) unsafe fn create<H: HasErrhandler>(
    rt: &Runtime,
    procedure: Proc,
    function: CommErrhandlerFn<H>,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let Some(function) = function.filter(|_| !errhandler.is_null()) else {
        return handle_error(rt, procedure, ERR_ARG, None);
    };
    let function = function as usize as u64;
    // SAFETY: null is excluded above; MPI requires any other address to be valid.
    unsafe { *errhandler = errhandler::create(rt, H::KIND, function) };
    SUCCESS
}

/// Implements `MPI_Comm_set_errhandler` and its variants.
pub(super) fn set(
    rt: &Runtime,
    procedure: Proc,
    handle: impl HasErrhandler,
    errhandler: VirtErrhandler,
) -> c_int {
    handle.finish(rt, procedure, |object| object.set(rt, errhandler))
}

/// Implements `MPI_Comm_get_errhandler` and its variants.
///
/// # Safety
/// `errhandler` is the program's address for the handle, or null.
pub(super) unsafe fn get(
    rt: &Runtime,
    procedure: Proc,
    handle: impl HasErrhandler,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    handle.finish(rt, procedure, |object| {
        if errhandler.is_null() {
            return ERR_ARG;
        }
        // SAFETY: null is excluded above; MPI requires any other address to be valid.
        unsafe { *errhandler = object.get(rt) };
        SUCCESS
    })
}

/// Implements `MPI_Comm_call_errhandler` and its variants.
pub(super) fn call(
    rt: &Runtime,
    procedure: Proc,
    handle: impl HasErrhandler,
    errorcode: c_int,
) -> c_int {
    handle.finish(rt, procedure, |object| {
        handle_error_on(rt, procedure, errorcode, object);
        SUCCESS
    })
}

pub unsafe extern "C" fn MPI_Errhandler_free(errhandler: *mut VirtErrhandler) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Errhandler_free;
    if errhandler.is_null() {
        return handle_error(rt, procedure, ERR_ARG, None);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let rc = errhandler::free(rt, unsafe { *errhandler });
    if rc == SUCCESS {
        // SAFETY: MPI requires the program's address of a handle to be valid.
        unsafe { *errhandler = errhandler::null_handle(rt) };
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Add_error_class(errorclass: *mut c_int) -> c_int {
    let rt = runtime();
    if errorclass.is_null() {
        return handle_error(rt, Proc::MPI_Add_error_class, ERR_ARG, None);
    }
    // SAFETY: MPI requires the program's argument to be valid.
    unsafe { *errorclass = objects_mut(rt).error_codes.add_class() };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Add_error_code(errorclass: c_int, errorcode: *mut c_int) -> c_int {
    let rt = runtime();
    let added = if errorcode.is_null() {
        None
    } else {
        objects_mut(rt).error_codes.add_code(errorclass)
    };
    let Some(code) = added else {
        return handle_error(rt, Proc::MPI_Add_error_code, ERR_ARG, None);
    };
    // SAFETY: MPI requires the program's argument to be valid.
    unsafe { *errorcode = code };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Add_error_string(errorcode: c_int, string: *const c_char) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Add_error_string;
    if string.is_null() {
        return handle_error(rt, procedure, ERR_ARG, None);
    }
    // SAFETY: MPI requires the program to pass a C string.
    let mut text = unsafe { CStr::from_ptr(string) }.to_bytes();
    let max_length = limit("MPI_MAX_ERROR_STRING") - 1;
    if is_foreign_abi() {
        // MPICH truncates a text that is too long; Open MPI refuses it.
        text = &text[..text.len().min(max_length)];
    }
    if text.len() <= max_length && objects_mut(rt).error_codes.set_text(errorcode, text) {
        return SUCCESS;
    }
    handle_error(rt, procedure, ERR_ARG, None)
}

/// Implements `MPI_Remove_error_class` and its variants (MPI 4.1, 9.5).
pub(super) fn remove(
    rt: &Runtime,
    procedure: Proc,
    remove: fn(&mut ErrorCodes, c_int) -> bool,
    number: c_int,
) -> c_int {
    // The borrow ends here, since the program's error handler may call MPI.
    let is_removed = remove(&mut objects_mut(rt).error_codes, number);
    match is_removed {
        true => SUCCESS,
        false => handle_error(rt, procedure, ERR_ARG, None),
    }
}

pub unsafe extern "C" fn MPI_Error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int {
    let rt = runtime();
    if let Some(class) = objects(rt).error_codes.class(errorcode)
        && !errorclass.is_null()
    {
        // SAFETY: MPI requires the program's argument to be valid.
        unsafe { *errorclass = class };
        return SUCCESS;
    }
    // SAFETY: MPI requires the program's arguments to be valid.
    let rc = unsafe { real::PMPI_Error_class(errorcode, errorclass) };
    finish(rt, Proc::MPI_Error_class, rc, None)
}

/// `MPI_Error_string`: an added code without a text has an empty one (9.5).
pub unsafe extern "C" fn MPI_Error_string(
    errorcode: c_int,
    string: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    let rt = runtime();
    let text = objects(rt).error_codes.text(errorcode).map(<[u8]>::to_vec);
    if let Some(text) = text {
        if string.is_null() || resultlen.is_null() {
            return handle_error(rt, Proc::MPI_Error_string, ERR_ARG, None);
        }
        // SAFETY: MPI requires room for MPI_MAX_ERROR_STRING characters; the text is shorter.
        unsafe {
            put_text(string, &text);
            *resultlen = text.len() as c_int;
        }
        return SUCCESS;
    }
    // SAFETY: MPI requires the program's arguments to be valid.
    let rc = unsafe { real::PMPI_Error_string(errorcode, string, resultlen) };
    finish(rt, Proc::MPI_Error_string, rc, None)
}
