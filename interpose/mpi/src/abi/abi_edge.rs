//! Edges where calls are translated between two ABIs.

use super::foreign_abi::Abi;
use crate::real_types::HandleKind;
use std::ffi::{CStr, c_int};

/// Edge where calls are translated.
pub trait Edge: 'static {
    /// True if the caller has the other ABI, and the callee Open MPI's.
    const INWARD: bool;

    /// Value that exists as long as the call.
    type Guard;

    /// Returns the other ABI.
    fn abi() -> &'static Abi;

    /// Converts a handle of the caller for the callee.
    fn handle(kind: HandleKind, handle: u64) -> u64;

    /// Converts a handle of the callee for the caller.
    fn handle_back(kind: HandleKind, handle: u64) -> u64;

    /// Converts an error code of the callee for the caller.
    fn outcome(code: c_int) -> c_int;

    /// Converts an error code of the caller for the callee.
    fn code(code: c_int) -> c_int;

    /// True if the results are not written, since the caller does not continue.
    fn is_void(code: c_int) -> bool;

    /// Begins a call; must be called before anything else.
    fn guard() -> Self::Guard;

    /// Returns the procedure of a slot.
    fn callee(slot: usize) -> *const ();

    /// Returns the number of processes of a callee's communicator, or of its remote group.
    fn members(comm: u64) -> usize;

    /// Returns the rank of this process in a communicator of the callee.
    fn rank(comm: u64) -> c_int;

    /// Returns the numbers of sources and of destinations in a communicator of the callee.
    fn degrees(comm: u64) -> (usize, usize);

    /// Returns the value of a variable of the side with the other ABI.
    fn variable(name: &'static CStr) -> isize;
}
