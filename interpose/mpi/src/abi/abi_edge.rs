//! Edges where calls are translated between two ABIs.

use super::foreign_abi::Abi;
use crate::real_types::HandleKind;
use std::ffi::{CStr, c_int};

/// Edge where calls are translated.
pub trait Edge: 'static {
    /// True if the caller has the other ABI, and the callee Open MPI's.
    const INWARD: bool;

    /// Value that lives as long as the call.
    type Guard;

    /// The other ABI.
    fn abi() -> &'static Abi;

    /// Converts a handle of the caller for the callee.
    fn handle(kind: HandleKind, handle: u64) -> u64;

    /// Converts a handle of the callee for the caller.
    fn handle_back(kind: HandleKind, handle: u64) -> u64;

    /// Converts an error code of the callee for the caller.
    fn outcome(code: c_int) -> c_int;

    /// Converts an error code of the caller for the callee.
    fn code(code: c_int) -> c_int;

    /// True if the caller gets no results, as it does not go on.
    fn is_void(code: c_int) -> bool;

    /// Begins a call; called before anything else.
    fn guard() -> Self::Guard;

    /// Procedure of a slot.
    fn callee(slot: usize) -> *const ();

    /// Number of processes of a communicator of the callee's, or of its remote group.
    fn members(comm: u64) -> usize;

    /// Rank of this process in a communicator of the callee's.
    fn rank(comm: u64) -> c_int;

    /// Numbers of neighbours in such a communicator: sources and destinations.
    fn degrees(comm: u64) -> (usize, usize);

    /// Value of a variable of the side with the other ABI.
    fn variable(name: &'static CStr) -> isize;
}
