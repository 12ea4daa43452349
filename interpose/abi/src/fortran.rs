//! Marks by which attributes of Fortran differ from those of C (MPI 4.1, 19.3.7).
//!
//! They stand in calls of C procedures.

use core::ffi::c_int;

/// Bit that marks the address of a callback as that of a closure.
///
/// A closure is a block in the program's memory whose first word is the address of the code. The
/// code gets the block as its fifth argument.
pub const CLOSURE: usize = 1 << 63;

/// Number added to a key of the program whose value is an integer of the size of an address.
pub const KEY: c_int = 1 << 28;
/// Mark of the address of a key's copy function.
///
/// This one and the delete function get and return such integers.
pub const FUNCTION: usize = CLOSURE;
