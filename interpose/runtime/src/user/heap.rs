//! Memory that the program has freed.
#![allow(unsafe_code)]

use crate::arch::call_user;
use crate::told::user_symbol;
use std::ffi::c_void;

/// Gives whole pages that the program has freed back to the kernel, so that they are no part of copies. What the program has
/// allocated later takes the same addresses as if nothing had been given back.
///
/// To be called in a handler, between two calls of the program's allocator.
pub fn give_back_freed() {
    match user_symbol("malloc_trim") {
        0 => {}
        // SAFETY: malloc_trim(3), called on the program's own stack.
        trim => drop(unsafe { call_user(trim as *const c_void, 0, 0, 0, 0, 0) }),
    }
}
