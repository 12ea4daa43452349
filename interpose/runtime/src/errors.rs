//! Codes and classes of errors of MPI procedures, as the real library returns them. What the program sees of one is decided in
//! [`crate::raise`].

use std::ffi::c_int;

/// `MPI_SUCCESS`
pub const SUCCESS: c_int = 0;
/// `MPI_ERR_BUFFER`
pub const ERR_BUFFER: c_int = 1;
/// `MPI_ERR_COUNT`
pub const ERR_COUNT: c_int = 2;
/// `MPI_ERR_TYPE`
pub const ERR_TYPE: c_int = 3;
/// `MPI_ERR_TAG`
pub const ERR_TAG: c_int = 4;
/// `MPI_ERR_COMM`
pub const ERR_COMM: c_int = 5;
/// `MPI_ERR_RANK`
pub const ERR_RANK: c_int = 6;
/// `MPI_ERR_REQUEST`
pub const ERR_REQUEST: c_int = 7;
/// `MPI_ERR_ROOT`
pub const ERR_ROOT: c_int = 8;
/// `MPI_ERR_OP`
pub const ERR_OP: c_int = 10;
/// `MPI_ERR_TOPOLOGY`
pub const ERR_TOPOLOGY: c_int = 11;
/// `MPI_ERR_ARG`
pub const ERR_ARG: c_int = 13;
/// `MPI_ERR_UNKNOWN`
pub const ERR_UNKNOWN: c_int = 14;
/// `MPI_ERR_OTHER`
pub const ERR_OTHER: c_int = 16;
/// `MPI_ERR_INTERN`
pub const ERR_INTERN: c_int = 17;
/// `MPI_ERR_IN_STATUS`
pub const ERR_IN_STATUS: c_int = 18;
/// `MPI_ERR_PENDING`
pub const ERR_PENDING: c_int = 19;
/// `MPI_ERR_ACCESS`
pub const ERR_ACCESS: c_int = 20;
/// `MPI_ERR_AMODE`
pub const ERR_AMODE: c_int = 21;
/// `MPI_ERR_BAD_FILE`
pub const ERR_BAD_FILE: c_int = 23;
/// `MPI_ERR_CONVERSION`
pub const ERR_CONVERSION: c_int = 25;
/// `MPI_ERR_DUP_DATAREP`
pub const ERR_DUP_DATAREP: c_int = 27;
/// `MPI_ERR_FILE_EXISTS`
pub const ERR_FILE_EXISTS: c_int = 28;
/// `MPI_ERR_FILE_IN_USE`
pub const ERR_FILE_IN_USE: c_int = 29;
/// `MPI_ERR_FILE`
pub const ERR_FILE: c_int = 30;
/// `MPI_ERR_IO`
pub const ERR_IO: c_int = 35;
/// `MPI_ERR_NO_MEM`
pub const ERR_NO_MEM: c_int = 39;
/// `MPI_ERR_NOT_SAME`
pub const ERR_NOT_SAME: c_int = 40;
/// `MPI_ERR_NO_SPACE`
pub const ERR_NO_SPACE: c_int = 41;
/// `MPI_ERR_NO_SUCH_FILE`
pub const ERR_NO_SUCH_FILE: c_int = 42;
/// `MPI_ERR_QUOTA`
pub const ERR_QUOTA: c_int = 44;
/// `MPI_ERR_READ_ONLY`
pub const ERR_READ_ONLY: c_int = 45;
/// `MPI_ERR_RMA_SYNC`
pub const ERR_RMA_SYNC: c_int = 47;
/// `MPI_ERR_NAME`
pub const ERR_NAME: c_int = 38;
/// `MPI_ERR_PORT`
pub const ERR_PORT: c_int = 43;
/// `MPI_ERR_SERVICE`
pub const ERR_SERVICE: c_int = 48;
/// `MPI_ERR_UNSUPPORTED_DATAREP`
pub const ERR_UNSUPPORTED_DATAREP: c_int = 51;
/// `MPI_ERR_WIN`
pub const ERR_WIN: c_int = 53;
/// `MPI_ERR_ABI`, which Open MPI 5.0 does not have
pub const ERR_ABI: c_int = 81;
/// `MPI_ERR_UNSUPPORTED_OPERATION`
pub const ERR_UNSUPPORTED_OPERATION: c_int = 52;

/// Whether a class of errors is about arguments, which are looked at before anything is sent.
pub fn is_of_arguments(class: c_int) -> bool {
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

/// An MPI return code as a result.
pub fn succeeded(rc: c_int) -> Result<(), c_int> {
    if rc == SUCCESS { Ok(()) } else { Err(rc) }
}
