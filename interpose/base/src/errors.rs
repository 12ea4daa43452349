//! Error codes and error classes of MPI procedures, as the MPI library returns them.
//!
//! The runtime (`error_handling`) determines the codes that the program receives.

use std::ffi::c_int;

pub const SUCCESS: c_int = 0;
pub const ERR_BUFFER: c_int = 1;
pub const ERR_COUNT: c_int = 2;
pub const ERR_TYPE: c_int = 3;
pub const ERR_COMM: c_int = 5;
pub const ERR_RANK: c_int = 6;
pub const ERR_REQUEST: c_int = 7;
pub const ERR_ROOT: c_int = 8;
pub const ERR_OP: c_int = 10;
pub const ERR_TOPOLOGY: c_int = 11;
pub const ERR_ARG: c_int = 13;
pub const ERR_UNKNOWN: c_int = 14;
pub const ERR_OTHER: c_int = 16;
pub const ERR_INTERN: c_int = 17;
pub const ERR_IN_STATUS: c_int = 18;
pub const ERR_PENDING: c_int = 19;
pub const ERR_ACCESS: c_int = 20;
pub const ERR_AMODE: c_int = 21;
pub const ERR_BAD_FILE: c_int = 23;
pub const ERR_CONVERSION: c_int = 25;
pub const ERR_FILE_EXISTS: c_int = 28;
pub const ERR_FILE_IN_USE: c_int = 29;
pub const ERR_FILE: c_int = 30;
pub const ERR_IO: c_int = 35;
pub const ERR_NO_MEM: c_int = 39;
pub const ERR_NOT_SAME: c_int = 40;
pub const ERR_NO_SPACE: c_int = 41;
pub const ERR_NO_SUCH_FILE: c_int = 42;
pub const ERR_QUOTA: c_int = 44;
pub const ERR_READ_ONLY: c_int = 45;
pub const ERR_RMA_SYNC: c_int = 47;
pub const ERR_NAME: c_int = 38;
pub const ERR_PORT: c_int = 43;
pub const ERR_SERVICE: c_int = 48;
pub const ERR_UNSUPPORTED_DATAREP: c_int = 51;
pub const ERR_WIN: c_int = 53;
/// `MPI_ERR_ABI`, which Open MPI 5.0 does not have.
pub const ERR_ABI: c_int = 81;
pub const ERR_UNSUPPORTED_OPERATION: c_int = 52;

/// True for error classes about arguments, which MPI reports before any message is sent.
pub fn is_argument_class(class: c_int) -> bool {
    const CLASSES: [c_int; 9] = [
        ERR_BUFFER,
        ERR_COUNT,
        ERR_TYPE,
        ERR_COMM,
        ERR_RANK,
        ERR_ROOT,
        ERR_TOPOLOGY,
        ERR_OP,
        ERR_ARG,
    ];
    CLASSES.contains(&class)
}

/// Converts an MPI return code to a result.
pub fn check(rc: c_int) -> Result<(), c_int> {
    if rc == SUCCESS { Ok(()) } else { Err(rc) }
}
