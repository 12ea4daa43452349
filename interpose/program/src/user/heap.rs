//! The program's heap: what the layer has there, and what the program has freed.
#![allow(unsafe_code)]

use crate::arch::call_user;
use crate::told::user_symbol;
use std::ffi::c_void;

/// Calls a procedure of the program's C library, on the program's own stack; to be called in a
/// handler.
fn call(procedure: &str, first: u64, second: u64) -> u64 {
    // SAFETY: one of malloc(3), calloc(3), free(3), malloc_trim(3), with its arguments.
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

/// Address of a block of so many bytes; 0 if there is no memory.
pub fn allocate(bytes: u64) -> u64 {
    call("malloc", bytes, 0)
}

/// Address of a block of so many zeros; 0 if there is no memory.
pub fn zeros(bytes: u64) -> u64 {
    call("calloc", 1, bytes)
}

/// Frees a block of the program's heap; address 0 is none.
pub fn free(block: u64) {
    call("free", block, 0);
}

/// Gives whole pages that the program has freed back to the kernel, so that they are no part of
/// copies. What the program has allocated later takes the same addresses as if nothing had been
/// given back.
///
/// To be called in a handler, between two calls of the program's allocator.
pub fn give_back_freed() {
    if user_symbol("malloc_trim") != 0 {
        call("malloc_trim", 0, 0);
    }
}
