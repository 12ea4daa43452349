//! Error handlers, error classes and codes (MPI 4.1, 9.3 to 9.5).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::put_text;
use crate::abi::is_foreign;
use crate::calls::runtime;
use crate::errors::{ERR_ARG, ERR_COMM, ERR_FILE, ERR_WIN, SUCCESS};
use crate::generated::callbacks::{CommErrhandlerFn, FileErrhandlerFn, WinErrhandlerFn};
use crate::generated::{HandleKind, Proc, real};
use crate::handles::{VirtComm, VirtErrhandler, VirtFile, VirtWin, real_errhandler};
use crate::objects::errhandler::{Kind, Object};
use crate::objects::lookup::{from_fortran, to_fortran};
use crate::objects::{comm, errhandler, file, objects, objects_mut, window};
use crate::raise::{finish, finish_win, raise, raise_on};
use crate::recovery::Runtime;
use std::ffi::{CStr, c_char, c_int};
use understudy_mpi::abi::limit;

/// # Safety
/// The program's place for the handle, or null.
unsafe fn create(
    rt: &Runtime,
    procedure: Proc,
    kind: Kind,
    function: Option<usize>,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let Some(function) = function.filter(|_| !errhandler.is_null()) else {
        return raise(rt, procedure, ERR_ARG, None);
    };
    // SAFETY: the caller's promise.
    unsafe { *errhandler = errhandler::create(rt, kind, function as u64) };
    SUCCESS
}

/// Of files (14.7).
pub unsafe extern "C" fn MPI_File_create_errhandler(
    function: FileErrhandlerFn<VirtFile>,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    let function = function.map(|function| function as usize);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        create(
            rt,
            Proc::MPI_File_create_errhandler,
            Kind::File,
            function,
            errhandler,
        )
    }
}

pub unsafe extern "C" fn MPI_Comm_create_errhandler(
    function: CommErrhandlerFn<VirtComm>,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    let function = function.map(|function| function as usize);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        create(
            rt,
            Proc::MPI_Comm_create_errhandler,
            Kind::Comm,
            function,
            errhandler,
        )
    }
}

pub unsafe extern "C" fn MPI_Errhandler_create(
    function: CommErrhandlerFn<VirtComm>,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    let function = function.map(|function| function as usize);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        create(
            rt,
            Proc::MPI_Errhandler_create,
            Kind::Comm,
            function,
            errhandler,
        )
    }
}

fn set(rt: &Runtime, procedure: Proc, comm: VirtComm, errhandler: VirtErrhandler) -> c_int {
    if comm::index(rt, comm).is_none() {
        return raise(rt, procedure, ERR_COMM, None);
    }
    finish(
        rt,
        procedure,
        Object::Comm(comm).set(rt, errhandler),
        Some(comm),
    )
}

pub unsafe extern "C" fn MPI_Comm_set_errhandler(
    comm: VirtComm,
    errhandler: VirtErrhandler,
) -> c_int {
    let rt = runtime();
    set(rt, Proc::MPI_Comm_set_errhandler, comm, errhandler)
}

pub unsafe extern "C" fn MPI_Errhandler_set(comm: VirtComm, errhandler: VirtErrhandler) -> c_int {
    let rt = runtime();
    set(rt, Proc::MPI_Errhandler_set, comm, errhandler)
}

/// # Safety
/// The program's place for the handle, or null.
unsafe fn get(
    rt: &Runtime,
    procedure: Proc,
    comm: VirtComm,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    if comm::index(rt, comm).is_none() {
        return raise(rt, procedure, ERR_COMM, None);
    }
    if errhandler.is_null() {
        return raise(rt, procedure, ERR_ARG, Some(comm));
    }
    // SAFETY: the caller's promise.
    unsafe { *errhandler = Object::Comm(comm).get(rt) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Comm_get_errhandler(
    comm: VirtComm,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe { get(rt, Proc::MPI_Comm_get_errhandler, comm, errhandler) }
}

pub unsafe extern "C" fn MPI_Errhandler_get(
    comm: VirtComm,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe { get(rt, Proc::MPI_Errhandler_get, comm, errhandler) }
}

pub unsafe extern "C" fn MPI_Comm_call_errhandler(comm: VirtComm, errorcode: c_int) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_call_errhandler;
    if comm::index(rt, comm).is_none() {
        return raise(rt, procedure, ERR_COMM, None);
    }
    raise_on(rt, procedure, errorcode, Object::Comm(comm));
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_create_errhandler(
    function: WinErrhandlerFn<VirtWin>,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    let function = function.map(|function| function as usize);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        create(
            rt,
            Proc::MPI_Win_create_errhandler,
            Kind::Win,
            function,
            errhandler,
        )
    }
}

/// Of a window that exists, with its error handler for errors.
fn finish_window(
    rt: &Runtime,
    procedure: Proc,
    win: VirtWin,
    rc: impl FnOnce(Object) -> c_int,
) -> c_int {
    match window::index(rt, win) {
        Some(_) => finish_win(rt, procedure, rc(Object::Win(win)), win),
        None => raise(rt, procedure, ERR_WIN, None),
    }
}

pub unsafe extern "C" fn MPI_Win_set_errhandler(win: VirtWin, errhandler: VirtErrhandler) -> c_int {
    let rt = runtime();
    finish_window(rt, Proc::MPI_Win_set_errhandler, win, |object| {
        object.set(rt, errhandler)
    })
}

pub unsafe extern "C" fn MPI_Win_get_errhandler(
    win: VirtWin,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    finish_window(rt, Proc::MPI_Win_get_errhandler, win, |object| {
        if errhandler.is_null() {
            return ERR_ARG;
        }
        // SAFETY: the program's place for the handle.
        unsafe { *errhandler = object.get(rt) };
        SUCCESS
    })
}

pub unsafe extern "C" fn MPI_Win_call_errhandler(win: VirtWin, errorcode: c_int) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_call_errhandler;
    finish_window(rt, procedure, win, |object| {
        raise_on(rt, procedure, errorcode, object);
        SUCCESS
    })
}

/// What errors of this file are raised on.
fn object_of(rt: &Runtime, fh: VirtFile) -> Result<Object, c_int> {
    match fh {
        fh if fh == errhandler::no_file(rt) => Ok(Object::NoFile),
        fh if file::index(rt, fh).is_some() => Ok(Object::File(fh)),
        _ => Err(ERR_FILE),
    }
}

fn finish_file(
    rt: &Runtime,
    procedure: Proc,
    fh: VirtFile,
    rc: impl FnOnce(Object) -> c_int,
) -> c_int {
    let object = object_of(rt, fh);
    match object.map_or_else(|rc| rc, rc) {
        SUCCESS => SUCCESS,
        rc => raise_on(rt, procedure, rc, object.unwrap_or(Object::NoFile)),
    }
}

pub unsafe extern "C" fn MPI_File_set_errhandler(
    fh: VirtFile,
    errhandler: VirtErrhandler,
) -> c_int {
    let rt = runtime();
    finish_file(rt, Proc::MPI_File_set_errhandler, fh, |object| {
        object.set(rt, errhandler)
    })
}

pub unsafe extern "C" fn MPI_File_get_errhandler(
    fh: VirtFile,
    errhandler: *mut VirtErrhandler,
) -> c_int {
    let rt = runtime();
    finish_file(rt, Proc::MPI_File_get_errhandler, fh, |object| {
        if errhandler.is_null() {
            return ERR_ARG;
        }
        // SAFETY: the program's place for the handle.
        unsafe { *errhandler = object.get(rt) };
        SUCCESS
    })
}

pub unsafe extern "C" fn MPI_File_call_errhandler(fh: VirtFile, errorcode: c_int) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_File_call_errhandler;
    finish_file(rt, procedure, fh, |object| {
        raise_on(rt, procedure, errorcode, object);
        SUCCESS
    })
}

pub unsafe extern "C" fn MPI_Errhandler_free(errhandler: *mut VirtErrhandler) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Errhandler_free;
    if errhandler.is_null() {
        return raise(rt, procedure, ERR_ARG, None);
    }
    // SAFETY: the program's handle.
    let rc = errhandler::free(rt, unsafe { *errhandler });
    if rc == SUCCESS {
        // SAFETY: the program's handle.
        unsafe { *errhandler = errhandler::null_handle(rt) };
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Errhandler_c2f(errhandler: VirtErrhandler) -> c_int {
    let rt = runtime();
    let real = || real_errhandler(rt, errhandler);
    // SAFETY: a predefined error handler.
    to_fortran(HandleKind::Errhandler, errhandler.0, || unsafe {
        real::PMPI_Errhandler_c2f(real())
    })
}

pub unsafe extern "C" fn MPI_Errhandler_f2c(errhandler: c_int) -> VirtErrhandler {
    let rt = runtime();
    let exists = |index| objects(rt).errhandlers.get(index).is_some();
    // SAFETY: the real library checks the number.
    let real = || unsafe { real::PMPI_Errhandler_f2c(errhandler).0 };
    VirtErrhandler(from_fortran(
        rt,
        HandleKind::Errhandler,
        errhandler,
        exists,
        real,
    ))
}

pub unsafe extern "C" fn MPI_Add_error_class(errorclass: *mut c_int) -> c_int {
    let rt = runtime();
    if errorclass.is_null() {
        return raise(rt, Proc::MPI_Add_error_class, ERR_ARG, None);
    }
    // SAFETY: the program's argument.
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
        return raise(rt, Proc::MPI_Add_error_code, ERR_ARG, None);
    };
    // SAFETY: the program's argument.
    unsafe { *errorcode = code };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Add_error_string(errorcode: c_int, string: *const c_char) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Add_error_string;
    if string.is_null() {
        return raise(rt, procedure, ERR_ARG, None);
    }
    // SAFETY: a C string of the program.
    let mut text = unsafe { CStr::from_ptr(string) }.to_bytes();
    let most = limit("MPI_MAX_ERROR_STRING") - 1;
    if is_foreign() {
        // MPICH cuts those that are too long; Open MPI refuses them.
        text = &text[..text.len().min(most)];
    }
    if text.len() <= most && objects_mut(rt).error_codes.set_text(errorcode, text) {
        return SUCCESS;
    }
    raise(rt, procedure, ERR_ARG, None)
}

/// The end of a removal (MPI 4.1, 9.5).
fn removed(rt: &Runtime, procedure: Proc, is_done: bool) -> c_int {
    match is_done {
        true => SUCCESS,
        false => raise(rt, procedure, ERR_ARG, None),
    }
}

pub unsafe extern "C" fn MPI_Remove_error_class(errorclass: c_int) -> c_int {
    let rt = runtime();
    let is_done = objects_mut(rt).error_codes.remove_class(errorclass);
    removed(rt, Proc::MPI_Remove_error_class, is_done)
}

pub unsafe extern "C" fn MPI_Remove_error_code(errorcode: c_int) -> c_int {
    let rt = runtime();
    let is_done = objects_mut(rt).error_codes.remove_code(errorcode);
    removed(rt, Proc::MPI_Remove_error_code, is_done)
}

pub unsafe extern "C" fn MPI_Remove_error_string(errorcode: c_int) -> c_int {
    let rt = runtime();
    let is_done = objects_mut(rt).error_codes.remove_text(errorcode);
    removed(rt, Proc::MPI_Remove_error_string, is_done)
}

pub unsafe extern "C" fn MPI_Error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int {
    let rt = runtime();
    if let Some(class) = objects(rt).error_codes.class(errorcode)
        && !errorclass.is_null()
    {
        // SAFETY: the program's argument.
        unsafe { *errorclass = class };
        return SUCCESS;
    }
    // SAFETY: the real library checks its arguments.
    let rc = unsafe { real::PMPI_Error_class(errorcode, errorclass) };
    finish(rt, Proc::MPI_Error_class, rc, None)
}

/// An added code without a text has an empty one (9.5).
pub unsafe extern "C" fn MPI_Error_string(
    errorcode: c_int,
    string: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    let rt = runtime();
    let text = objects(rt).error_codes.text(errorcode).map(<[u8]>::to_vec);
    if let Some(text) = text {
        if string.is_null() || resultlen.is_null() {
            return raise(rt, Proc::MPI_Error_string, ERR_ARG, None);
        }
        // SAFETY: the program's array of MPI_MAX_ERROR_STRING characters; a text is shorter.
        unsafe {
            put_text(string, &text);
            *resultlen = text.len() as c_int;
        }
        return SUCCESS;
    }
    // SAFETY: the program's arguments are handed on.
    let rc = unsafe { real::PMPI_Error_string(errorcode, string, resultlen) };
    finish(rt, Proc::MPI_Error_string, rc, None)
}
