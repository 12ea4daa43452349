//! Fortran handles of requests, messages, files and sessions (MPI 4.1, section 19.3.4); those of other kinds are with their objects.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::calls::runtime;
use crate::generated::{HandleKind, real};
use crate::handles::{VirtFile, VirtMessage, VirtRequest, real_message, virtual_handle};
use crate::objects::errhandler::no_file;
use crate::objects::lookup::{from_fortran, to_fortran};
use crate::objects::objects;
use crate::{early, requests};
use std::ffi::c_int;

/// Fortran handles of created objects start here; below are the real library's predefined ones.
const CREATED: c_int = 1_000_000;

/// `MPI_Request_c2f`: MPI_REQUEST_NULL is 0 in Open MPI.
pub unsafe extern "C" fn MPI_Request_c2f(request: VirtRequest) -> c_int {
    let rt = runtime();
    requests::index(rt, request).map_or(0, |index| CREATED + index as c_int)
}

/// `MPI_Request_f2c`
pub unsafe extern "C" fn MPI_Request_f2c(request: c_int) -> VirtRequest {
    let rt = runtime();
    if request >= CREATED {
        VirtRequest(virtual_handle(HandleKind::Request, (request - CREATED) as u32))
    } else {
        requests::null_handle(rt)
    }
}

/// `MPI_Message_c2f`
pub unsafe extern "C" fn MPI_Message_c2f(message: VirtMessage) -> c_int {
    let rt = runtime();
    // SAFETY: a predefined message.
    to_fortran(HandleKind::Message, message.0, || unsafe {
        real::PMPI_Message_c2f(real_message(rt, message))
    })
}

/// `MPI_Message_f2c`
pub unsafe extern "C" fn MPI_Message_f2c(message: c_int) -> VirtMessage {
    let rt = runtime();
    // SAFETY: the real library checks the number.
    let real = || unsafe { real::PMPI_Message_f2c(message).0 };
    VirtMessage(from_fortran(
        rt,
        HandleKind::Message,
        message,
        |it| early::matched_exists(rt, it),
        real,
    ))
}

/// `MPI_File_c2f`: MPI_FILE_NULL is 0 in Open MPI, what is no file -1.
pub unsafe extern "C" fn MPI_File_c2f(fh: VirtFile) -> c_int {
    let rt = runtime();
    to_fortran(HandleKind::File, fh.0, || if fh == no_file(rt) { 0 } else { -1 })
}

/// `MPI_File_f2c`
pub unsafe extern "C" fn MPI_File_f2c(fh: c_int) -> VirtFile {
    let rt = runtime();
    let exists = |index| objects(rt).files.get(index).is_some();
    match fh {
        0 => no_file(rt),
        fh => VirtFile(from_fortran(rt, HandleKind::File, fh, exists, std::ptr::null_mut)),
    }
}
