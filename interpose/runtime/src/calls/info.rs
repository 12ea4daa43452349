//! Info objects (MPI 4.1, chapter 10). Query procedures are generated.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::Runtime;
use crate::calls::runtime;
use crate::error_handling::{finish, handle_error};
use crate::errors::{ERR_ARG, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtInfo, real_info};
use crate::objects::comm::hints;
use crate::objects::info::{self, ERR_INFO};
use std::ffi::{CStr, c_char, c_int};
use understudy_mpi::real_types::RealInfo;

/// Implements `MPI_Info_create` and its variants.
///
/// # Safety
/// `info` is the program's address for the handle, or null.
pub(super) unsafe fn construct(
    rt: &Runtime,
    procedure: Proc,
    info: *mut VirtInfo,
    real: impl FnOnce(*mut RealInfo) -> c_int,
) -> c_int {
    if info.is_null() {
        return handle_error(rt, procedure, ERR_ARG, None);
    }
    let mut new = hints::null_info(rt);
    let rc = real(&mut new);
    if rc == SUCCESS {
        // SAFETY: null is excluded above; MPI requires any other address to be valid.
        unsafe { *info = info::adopt(rt, new) };
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Info_set(
    info: VirtInfo,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    let rc = unsafe { real::PMPI_Info_set(real_info(rt, info), key, value) };
    if rc == SUCCESS
        && let Some(mut entry) = info::get_mut(rt, info)
    {
        // SAFETY: MPI requires the program to pass C strings, and the library has accepted them.
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
    // SAFETY: MPI requires the program's arguments to be valid.
    let rc = unsafe { real::PMPI_Info_delete(real_info(rt, info), key) };
    if rc == SUCCESS
        && let Some(mut entry) = info::get_mut(rt, info)
    {
        // SAFETY: MPI requires the program to pass a C string, and the library has accepted it.
        unsafe { entry.delete(CStr::from_ptr(key).to_bytes()) };
    }
    finish(rt, Proc::MPI_Info_delete, rc, None)
}

pub unsafe extern "C" fn MPI_Info_free(info: *mut VirtInfo) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Info_free;
    if info.is_null() {
        return handle_error(rt, procedure, ERR_INFO, None);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let rc = info::free(rt, unsafe { *info });
    if rc == SUCCESS {
        // SAFETY: MPI requires the program's address of a handle to be valid.
        unsafe { *info = info::null_handle(rt) };
    }
    finish(rt, procedure, rc, None)
}
