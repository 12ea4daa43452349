//! Entry points that the runtime hands to the face.

use crate::written::Written;
use core::ffi::{c_int, c_void};

/// Number of entries for thunks.
pub const ENTRIES: usize = 3;

/// Entry points of the runtime, for the face.
#[repr(C)]
pub struct EntryPoints {
    /// [`crate::ABI_VERSION`] of the runtime.
    pub version: u32,
    /// Number of slots of its dispatch table; must equal the face's.
    pub slot_count: u32,
    /// Targets of the thunks, with the slot's number in `eax` and the caller's registers untouched.
    ///
    /// One for each number of stack arguments in the call table (`STACK_WORDS` of the generated
    /// source).
    pub enter: [*const c_void; ENTRIES],
    /// Function that the face calls before an effect on files ([`crate::effect::Hook`]).
    ///
    /// It may be called on any stack and thread.
    pub file_effect: *const c_void,
    /// Knowledge of the program's descriptors, which lives as long as the process.
    pub written: *const Written,
    /// Signal handler that the face calls when the program dies of a signal ([`FatalHook`]).
    pub fatal_signal: *const c_void,
    /// Function to be called after each `pthread_cancel`(3), on any thread and stack.
    ///
    /// libc may have registered its own handler of SIGCANCEL.
    pub cancelled: *const c_void,
    /// Entry of the procedures in [`source::SOURCES`](crate::source::SOURCES).
    ///
    /// `eax` has their slots, which follow those of the call table.
    pub source: *const c_void,
}

/// Function of a signal, its `siginfo_t` and `ucontext_t`.
///
/// It returns true if the default action of the signal is to follow.
pub type FatalHook = unsafe extern "C" fn(c_int, *const c_void, *mut c_void) -> bool;
