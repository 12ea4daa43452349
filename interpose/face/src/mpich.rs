//! What MPICH's libmpi exports besides the procedures of the call table.
#![allow(unsafe_code, non_snake_case, missing_docs)]

use crate::{msg, sys};
use core::ffi::{c_int, c_void};

#[allow(dead_code)]
mod generated {
    use super::refuse;
    include!(concat!(env!("OUT_DIR"), "/mpich.rs"));
}

/// Constants that are pointers to the program: Open MPI's values, which the runtime knows.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: usize = 2;
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: usize = 3;

/// MPI_COMM_DUP_FN and its like (MPI 4.1, 7.7.2): the copy is the value.
///
/// # Safety
/// As the standard says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _key: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    copy: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        copy.write(value);
        flag.write(1);
    }
    0
}

extern "C" fn refuse(number: u32) -> ! {
    let name = generated::UNSUPPORTED.get(number as usize).unwrap_or(&"?");
    msg::say(format_args!(
        "{name} is not supported under protection; run the program with MPICH's mpiexec if it needs it"
    ));
    sys::exit(understudy_abi::exit::REFUSED)
}
