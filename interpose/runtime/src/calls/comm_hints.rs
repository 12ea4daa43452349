//! Names and hints of communicators (MPI 4.1, 7.4.4 and 7.8).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::runtime;
use crate::attempt;
use crate::error_handling::{finish, handle_error};
use crate::errors;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtInfo, real_comm, real_info};
use crate::objects::comm::{self, hints};
use crate::objects::info;
use std::ffi::{c_char, c_int};

pub unsafe extern "C" fn MPI_Comm_set_name(comm: VirtComm, comm_name: *const c_char) -> c_int {
    let rt = runtime();
    let real = real_comm(rt, comm);
    // SAFETY: MPI requires the program's arguments to be valid. The procedure is local.
    let rc = unsafe { real::PMPI_Comm_set_name(real, comm_name) };
    if rc == errors::SUCCESS
        && let Some(mut entry) = comm::get_mut(rt, comm)
    {
        entry.name = Some(hints::name(real));
    }
    finish(rt, Proc::MPI_Comm_set_name, rc, Some(comm))
}

pub unsafe extern "C" fn MPI_Comm_set_info(comm: VirtComm, info: VirtInfo) -> c_int {
    let rt = runtime();
    let real = real_comm(rt, comm);
    // SAFETY: the real library checks its arguments.
    let rc = unsafe { real::PMPI_Comm_set_info(real, real_info(rt, info)) };
    let rc = attempt!(rt, rc);
    if rc == errors::SUCCESS
        && let Some(mut entry) = comm::get_mut(rt, comm)
    {
        entry.info = hints::hints_of_comm(rt, real);
    }
    finish(rt, Proc::MPI_Comm_set_info, rc, Some(comm))
}

pub unsafe extern "C" fn MPI_Comm_get_info(comm: VirtComm, info_used: *mut VirtInfo) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_get_info;
    if comm::index(rt, comm).is_none() {
        return handle_error(rt, procedure, errors::ERR_COMM, Some(comm));
    }
    if info_used.is_null() {
        return handle_error(rt, procedure, errors::ERR_ARG, Some(comm));
    }
    let mut real = hints::null_info(rt);
    // SAFETY: a communicator; the new info object belongs to the runtime.
    let rc = unsafe { real::PMPI_Comm_get_info(real_comm(rt, comm), &mut real) };
    if rc == errors::SUCCESS {
        // SAFETY: MPI requires the program's address for the handle to be valid.
        unsafe { *info_used = info::adopt(rt, real) };
    }
    finish(rt, procedure, rc, Some(comm))
}
