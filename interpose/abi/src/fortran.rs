//! Marks that distinguish Fortran's attributes from C's (MPI 4.1, 19.3.7).
//!
//! Calls of C procedures pass these marks.

use core::ffi::c_int;

/// Bit that marks the address of a callback as the address of a closure.
///
/// A closure is a block in the program's memory whose first word is the address of the code. The
/// code receives the block as its fifth argument.
pub const CLOSURE: usize = 1 << 63;

/// Number added to a key that has address-sized integers as values.
pub const KEY: c_int = 1 << 28;
/// Bit that marks the address of a key's copy function.
///
/// The marked copy function and the delete function take and return integers of the size of an
/// address.
pub const FUNCTION: usize = CLOSURE;
