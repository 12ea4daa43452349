//! The unwinder of the runtime side's libgcc, which can walk frames of all sides.
//!
//! libgcc locates the unwind tables by ld.so's `_dl_find_object`, which takes no lock and finds the
//! objects of all namespaces. So a signal handler may use the unwinder.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

/// Result of a trace function that continues the walk (`_URC_NO_REASON`).
pub const CONTINUE_WALK: c_int = 0;
/// Result of a trace function that ends the walk (`_URC_END_OF_STACK`).
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
