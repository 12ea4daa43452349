//! Info objects (MPI 4.1, chapter 10). Inquiries are generated.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::calls::runtime;
use crate::errors::{ERR_ARG, SUCCESS};
use crate::generated::{HandleKind, Proc, real};
use crate::handles::{VirtInfo, real_info};
use crate::objects::comm::hints;
use crate::objects::info::{self, ERR_INFO};
use crate::objects::lookup::{from_fortran, to_fortran};
use crate::raise::{finish, raise};
use crate::recovery::Runtime;
use std::ffi::{CStr, c_char, c_int};
use understudy_mpi::real_types::RealInfo;

/// Calls a real constructor and enters what it has made.
///
/// # Safety
/// `info` is the program's place for the handle, or null.
unsafe fn construct(
    rt: &Runtime,
    procedure: Proc,
    info: *mut VirtInfo,
    real: impl FnOnce(*mut RealInfo) -> c_int,
) -> c_int {
    if info.is_null() {
        return raise(rt, procedure, ERR_ARG, None);
    }
    let mut new = hints::null_info(rt);
    let rc = real(&mut new);
    if rc == SUCCESS {
        // SAFETY: the caller's promise.
        unsafe { *info = info::adopt(rt, new) };
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Info_create(info: *mut VirtInfo) -> c_int {
    let rt = runtime();
    // SAFETY: the program's place for the handle.
    unsafe {
        construct(rt, Proc::MPI_Info_create, info, |new| {
            real::PMPI_Info_create(new)
        })
    }
}

pub unsafe extern "C" fn MPI_Info_create_env(
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut VirtInfo,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe {
        construct(rt, Proc::MPI_Info_create_env, info, |new| {
            real::PMPI_Info_create_env(argc, argv, new)
        })
    }
}

pub unsafe extern "C" fn MPI_Info_dup(info: VirtInfo, newinfo: *mut VirtInfo) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe {
        construct(rt, Proc::MPI_Info_dup, newinfo, |new| {
            real::PMPI_Info_dup(real_info(rt, info), new)
        })
    }
}

pub unsafe extern "C" fn MPI_Info_set(
    info: VirtInfo,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    let rt = runtime();
    // SAFETY: the real library checks its arguments.
    let rc = unsafe { real::PMPI_Info_set(real_info(rt, info), key, value) };
    if rc == SUCCESS
        && let Some(mut entry) = info::get_mut(rt, info)
    {
        // SAFETY: C strings of the program, which the real library has accepted.
        unsafe {
            entry.set(
                CStr::from_ptr(key).to_bytes(),
                CStr::from_ptr(value).to_bytes(),
            )
        };
    }
    finish(rt, Proc::MPI_Info_set, rc, None)
}

pub unsafe extern "C" fn MPI_Info_delete(info: VirtInfo, key: *const c_char) -> c_int {
    let rt = runtime();
    // SAFETY: the real library checks its arguments.
    let rc = unsafe { real::PMPI_Info_delete(real_info(rt, info), key) };
    if rc == SUCCESS
        && let Some(mut entry) = info::get_mut(rt, info)
    {
        // SAFETY: a C string of the program, which the real library has accepted.
        unsafe { entry.delete(CStr::from_ptr(key).to_bytes()) };
    }
    finish(rt, Proc::MPI_Info_delete, rc, None)
}

pub unsafe extern "C" fn MPI_Info_free(info: *mut VirtInfo) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Info_free;
    if info.is_null() {
        return raise(rt, procedure, ERR_INFO, None);
    }
    // SAFETY: the program's handle.
    let rc = info::free(rt, unsafe { *info });
    if rc == SUCCESS {
        // SAFETY: the program's handle.
        unsafe { *info = info::null_handle(rt) };
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Info_c2f(info: VirtInfo) -> c_int {
    let rt = runtime();
    // SAFETY: a predefined info object.
    to_fortran(HandleKind::Info, info.0, || unsafe {
        real::PMPI_Info_c2f(real_info(rt, info))
    })
}

pub unsafe extern "C" fn MPI_Info_f2c(info: c_int) -> VirtInfo {
    let rt = runtime();
    let exists = |index| crate::objects::objects(rt).infos.get(index).is_some();
    // SAFETY: the real library checks the number.
    VirtInfo(from_fortran(
        rt,
        HandleKind::Info,
        info,
        exists,
        || unsafe { real::PMPI_Info_f2c(info).0 },
    ))
}
