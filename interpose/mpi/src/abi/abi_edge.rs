//! Trait of the edges where calls are translated between Open MPI's ABI and another.

use super::foreign_abi::Abi;
use crate::real_types::HandleKind;
use std::ffi::{CStr, c_int};

/// Edge where calls are translated from the caller's ABI to the callee's.
pub trait Edge: 'static {
    /// True at the edge between program and runtime, where the caller has the other ABI.
    ///
    /// False at the edge between runtime and library, where the callee has the other ABI.
    const INWARD: bool;

    /// Value that exists as long as the call.
    type Guard;

    /// Returns the ABI that is not Open MPI's.
    fn abi() -> &'static Abi;

    /// Converts a handle of the caller for the callee.
    fn handle(kind: HandleKind, handle: u64) -> u64;

    /// Converts a handle of the callee for the caller.
    fn handle_back(kind: HandleKind, handle: u64) -> u64;

    /// Converts an error code of the callee for the caller.
    fn error_for_caller(code: c_int) -> c_int;

    /// Converts an error code of the caller for the callee.
    fn error_for_callee(code: c_int) -> c_int;

    /// True if no results of the call may be written.
    ///
    /// The reason at the edge to the program is that a recovery has restored the caller's memory;
    /// at the edge to the library, that the call was abandoned.
    fn is_void(code: c_int) -> bool;

    /// Begins a call; must be called before all other methods.
    fn guard() -> Self::Guard;

    /// Returns the callee's procedure of a slot.
    fn callee(slot: usize) -> *const ();

    /// Returns the number of processes of a callee's communicator, or of its remote group.
    fn members(comm: u64) -> usize;

    /// Returns the rank of this process in a communicator of the callee.
    fn rank(comm: u64) -> c_int;

    /// Returns the numbers of sources and of destinations in a communicator of the callee.
    fn degrees(comm: u64) -> (usize, usize);

    /// Returns the value of a variable on the side that has the other ABI.
    fn variable(name: &'static CStr) -> isize;
}
