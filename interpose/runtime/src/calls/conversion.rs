//! Fortran handles of requests, messages, files and sessions (MPI 4.1, section 19.3.4).
//!
//! Conversions of other handles are in the modules of their objects. This file also contains the
//! queries about Fortran's types (MPI 5.0, chapter 20).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::Runtime;
use crate::calls::runtime;
use crate::error_handling::{finish, unsupported};
use crate::errors::{ERR_ABI, ERR_ARG, SUCCESS};
use crate::generated::Proc;
use crate::generated::{HandleKind, real};
use crate::handles::{VirtFile, VirtInfo, VirtRequest, virtual_handle};
use crate::objects::comm::hints;
use crate::objects::errhandler::null_file;
use crate::objects::lookup::{from_fortran, to_fortran};
use crate::objects::{datatype, info, objects, op};
use crate::{drained, requests};
use std::ffi::{c_int, c_void};
use understudy_mpi::library;

/// True if the program has created an object of this kind with this index.
pub(super) fn exists(rt: &Runtime, kind: HandleKind, index: u32) -> bool {
    match kind {
        HandleKind::Datatype => datatype::index_of_created(rt, datatype::handle(index)).is_some(),
        HandleKind::Group => objects(rt).groups.get(index).is_some(),
        HandleKind::Info => objects(rt).infos.get(index).is_some(),
        HandleKind::Op => op::exists(rt, index),
        HandleKind::Errhandler => objects(rt).errhandlers.get(index).is_some(),
        HandleKind::Message => drained::matched_exists(rt, index),
        // Conversions of other kinds are handwritten.
        _ => false,
    }
}

/// First Fortran handle of created objects; lower ones are the library's predefined ones.
const FIRST_CREATED: c_int = 1_000_000;

/// `MPI_Request_c2f`: MPI_REQUEST_NULL is 0 in Open MPI.
pub unsafe extern "C" fn MPI_Request_c2f(request: VirtRequest) -> c_int {
    let rt = runtime();
    requests::index(rt, request).map_or(0, |index| FIRST_CREATED + index as c_int)
}

pub unsafe extern "C" fn MPI_Request_f2c(request: c_int) -> VirtRequest {
    let rt = runtime();
    if request >= FIRST_CREATED {
        VirtRequest(virtual_handle(
            HandleKind::Request,
            (request - FIRST_CREATED) as u32,
        ))
    } else {
        requests::null_handle(rt)
    }
}

/// `MPI_File_c2f`: in Open MPI MPI_FILE_NULL is 0, and an invalid handle is -1.
pub unsafe extern "C" fn MPI_File_c2f(fh: VirtFile) -> c_int {
    let rt = runtime();
    to_fortran(HandleKind::File, fh.0, || {
        if fh == null_file(rt) { 0 } else { -1 }
    })
}

pub unsafe extern "C" fn MPI_File_f2c(fh: c_int) -> VirtFile {
    let rt = runtime();
    let exists = |index| objects(rt).files.get(index).is_some();
    match fh {
        0 => null_file(rt),
        fh => VirtFile(from_fortran(
            rt,
            HandleKind::File,
            fh,
            exists,
            std::ptr::null_mut,
        )),
    }
}

/// True if the library has the procedures of MPI 5.0 about Fortran's types.
fn has_fortran_types() -> bool {
    !library::symbol(c"PMPI_Abi_get_fortran_info").is_null()
}

/// `MPI_Abi_get_fortran_info`: the null handle if the library has no Fortran types.
pub unsafe extern "C" fn MPI_Abi_get_fortran_info(info: *mut VirtInfo) -> c_int {
    let (rt, procedure) = (runtime(), Proc::MPI_Abi_get_fortran_info);
    if info.is_null() {
        return finish(rt, procedure, ERR_ARG, None);
    }
    let null = hints::null_info(rt);
    let (mut known, mut rc) = (null, SUCCESS);
    if has_fortran_types() {
        // SAFETY: the address of a local variable. The new info object belongs to the runtime.
        rc = unsafe { real::PMPI_Abi_get_fortran_info(&mut known) };
    }
    if rc == SUCCESS {
        let found = (known != null).then(|| info::adopt(rt, known));
        // SAFETY: MPI requires the program's address for the handle to be valid.
        unsafe { info.write(found.unwrap_or_else(|| info::null_handle(rt))) };
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    let (rt, procedure) = (runtime(), Proc::MPI_Abi_get_fortran_booleans);
    if is_set.is_null() {
        return finish(rt, procedure, ERR_ARG, None);
    }
    // SAFETY: MPI requires the program's arguments to be valid.
    let rc = unsafe {
        if has_fortran_types() {
            real::PMPI_Abi_get_fortran_booleans(logical_size, logical_true, logical_false, is_set)
        } else {
            is_set.write(0);
            SUCCESS
        }
    };
    finish(rt, procedure, rc, None)
}

/// Refuses to set Fortran's types.
///
/// A library that knows Fortran's types from its installation refuses the call (MPI 5.0). In other
/// libraries the types would have to be set once more after each failure, which is not supported.
fn set_fortran(procedure: Proc) -> c_int {
    let rt = runtime();
    let mut known = hints::null_info(rt);
    let null = known;
    // SAFETY: an address for a handle, which is freed.
    unsafe {
        if has_fortran_types()
            && real::PMPI_Abi_get_fortran_info(&mut known) == SUCCESS
            && known != null
        {
            real::PMPI_Info_free(&mut known);
            return finish(rt, procedure, ERR_ABI, None);
        }
    }
    unsupported(rt, procedure)
}

pub unsafe extern "C" fn MPI_Abi_set_fortran_info(_info: VirtInfo) -> c_int {
    set_fortran(Proc::MPI_Abi_set_fortran_info)
}

pub unsafe extern "C" fn MPI_Abi_set_fortran_booleans(
    _logical_size: c_int,
    _logical_true: *mut c_void,
    _logical_false: *mut c_void,
) -> c_int {
    set_fortran(Proc::MPI_Abi_set_fortran_booleans)
}
