//! The unwinder of this side's libgcc, which handles the frames of both sides.
//!
//! Uses ld.so's `_dl_find_object`, which takes no lock.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

/// Continues the walk.
pub const CONTINUE_WALK: c_int = 0;
pub const END_OF_STACK: c_int = 5;

#[link(name = "gcc_s")]
unsafe extern "C" {
    /// Calls `trace` for each frame, the innermost first.
    pub fn _Unwind_Backtrace(
        trace: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    /// Returns the address of a frame's instruction.
    pub fn _Unwind_GetIP(context: *mut c_void) -> usize;
}
