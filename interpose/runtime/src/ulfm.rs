//! The procedures of User Level Failure Mitigation, which mpi.h's bindings do not know
//! (ULFM specification; Open MPI's `mpi-ext.h`).
#![allow(unsafe_code, non_snake_case)]

use crate::real_types::{RealComm, RealGroup, RealRequest};
use std::ffi::c_int;

/// `MPIX_ERR_PROC_FAILED`
pub const ERR_PROC_FAILED: c_int = 75;
/// `MPIX_ERR_PROC_FAILED_PENDING`
pub const ERR_PROC_FAILED_PENDING: c_int = 76;
/// `MPIX_ERR_REVOKED`
pub const ERR_REVOKED: c_int = 77;

unsafe extern "C" {
    pub fn MPIX_Comm_revoke(comm: RealComm) -> c_int;
    pub fn MPIX_Comm_is_revoked(comm: RealComm, flag: *mut c_int) -> c_int;
    pub fn MPIX_Comm_shrink(comm: RealComm, shrunk: *mut RealComm) -> c_int;
    pub fn MPIX_Comm_agree(comm: RealComm, flag: *mut c_int) -> c_int;
    pub fn MPIX_Comm_iagree(comm: RealComm, flag: *mut c_int, request: *mut RealRequest) -> c_int;
    pub fn MPIX_Comm_failure_ack(comm: RealComm) -> c_int;
    pub fn MPIX_Comm_failure_get_acked(comm: RealComm, group: *mut RealGroup) -> c_int;
}
