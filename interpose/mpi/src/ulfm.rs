//! The procedures of User Level Failure Mitigation, which mpi.h's bindings do not know
//! (ULFM specification; Open MPI's `mpi-ext.h`).
#![allow(unsafe_code, non_snake_case)]

use crate::library::Procedure;
use crate::real_types::{RealComm, RealGroup, RealRequest};
use std::ffi::c_int;

/// `MPIX_ERR_PROC_FAILED`
pub const ERR_PROC_FAILED: c_int = 75;
/// `MPIX_ERR_PROC_FAILED_PENDING`
pub const ERR_PROC_FAILED_PENDING: c_int = 76;
/// `MPIX_ERR_REVOKED`
pub const ERR_REVOKED: c_int = 77;

/// Addresses of the procedures, in the order of the functions below.
pub(crate) static PROCEDURES: [Procedure; 7] = [
    Procedure::new(c"MPIX_Comm_revoke"),
    Procedure::new(c"MPIX_Comm_is_revoked"),
    Procedure::new(c"MPIX_Comm_shrink"),
    Procedure::new(c"MPIX_Comm_agree"),
    Procedure::new(c"MPIX_Comm_iagree"),
    Procedure::new(c"MPIX_Comm_failure_ack"),
    Procedure::new(c"MPIX_Comm_failure_get_acked"),
];

/// `index: NAME(arguments)`, called through the table.
macro_rules! procedures {
    ($($index:literal: $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        /// The procedure of this name.
        ///
        /// # Safety
        /// As the specification says.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            crate::call::through!(PROCEDURES, $index, call_0)
        }
    )*};
}

procedures! {
    0: MPIX_Comm_revoke(comm: RealComm);
    1: MPIX_Comm_is_revoked(comm: RealComm, flag: *mut c_int);
    2: MPIX_Comm_shrink(comm: RealComm, shrunk: *mut RealComm);
    3: MPIX_Comm_agree(comm: RealComm, flag: *mut c_int);
    4: MPIX_Comm_iagree(comm: RealComm, flag: *mut c_int, request: *mut RealRequest);
    5: MPIX_Comm_failure_ack(comm: RealComm);
    6: MPIX_Comm_failure_get_acked(comm: RealComm, group: *mut RealGroup);
}
