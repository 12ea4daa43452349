//! Entry points that the runtime passes to the preload library.

use crate::descriptor_facts::DescriptorFacts;
use core::ffi::{c_int, c_void};

/// Number of entries for thunks.
pub const ENTRIES: usize = 3;

/// Entry points of the runtime, for the preload library.
#[repr(C)]
pub struct EntryPoints {
    /// [`crate::ABI_VERSION`] of the runtime.
    pub version: u32,
    /// Number of slots of the call table; must equal the preload library's.
    pub slot_count: u32,
    /// Targets of the thunks, with the slot in `eax` and the caller's registers untouched.
    ///
    /// The array has one target for each number of stack arguments that procedures of the call
    /// table have (`STACK_WORDS` of the generated source).
    pub enter: [*const c_void; ENTRIES],
    /// Function that the preload library calls to report effects ([`crate::effect::Hook`]).
    ///
    /// The function may be called on any stack and thread.
    pub file_effect: *const c_void,
    /// Cached facts about the program's descriptors; they live as long as the process.
    pub descriptor_facts: *const DescriptorFacts,
    /// Signal handler that is called before a signal terminates the program ([`FatalHook`]).
    pub fatal_signal: *const c_void,
    /// Signals that `fatal_signal` handles whatever the program sets; bit `n - 1` is signal `n`.
    pub claimed_signals: u64,
    /// Function to be called after each `pthread_cancel`(3), on any thread and stack.
    ///
    /// The function restores the runtime's handler of SIGCANCEL, which libc may have replaced.
    pub after_cancellation: *const c_void,
    /// Entry of the procedures in
    /// [`libc_procedures::LIBC_PROCEDURES`](crate::libc_procedures::LIBC_PROCEDURES).
    ///
    /// The slot of the procedure is in eax. These slots follow those of the call table.
    pub enter_libc_procedure: *const c_void,
}

/// Handler of a fatal signal, with the arguments of a signal handler (sigaction(2)).
///
/// Returns true if the signal's default action must follow.
pub type FatalHook = unsafe extern "C" fn(c_int, *const c_void, *mut c_void) -> bool;
