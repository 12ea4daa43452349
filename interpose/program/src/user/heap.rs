//! Operations on the program's heap: blocks for the runtime, and release of freed memory.
#![allow(unsafe_code)]

use crate::arch::call_user;
use crate::process_info::user_symbol;
use std::ffi::c_void;

/// Calls a procedure of the program's C library, on the program's stack.
///
/// Must be called in a handler of an MPI procedure.
fn call(procedure: &str, first: u64, second: u64) -> u64 {
    // SAFETY: the procedure is malloc(3), calloc(3), free(3) or malloc_trim(3) of the program's
    // libc, and the numbers are its arguments.
    unsafe {
        call_user(
            user_symbol(procedure) as *const c_void,
            first,
            second,
            0,
            0,
            0,
        )
    }
}

/// Returns the address of a block of this length; zero if memory is exhausted.
pub fn allocate(bytes: u64) -> u64 {
    call("malloc", bytes, 0)
}

/// Returns the address of a zeroed block of this length; zero if memory is exhausted.
pub fn zeros(bytes: u64) -> u64 {
    call("calloc", 1, bytes)
}

/// Frees a block of the program's heap; address zero is ignored.
pub fn free(block: u64) {
    call("free", block, 0);
}

/// Returns whole freed pages to the kernel, so that replicas do not contain them.
///
/// Later allocations of the program get the addresses that they would have got without this call.
///
/// Must be called in a handler of an MPI procedure, between two calls of the program's allocator.
pub fn release_freed_pages() {
    if user_symbol("malloc_trim") != 0 {
        call("malloc_trim", 0, 0);
    }
}
