//! Marks that distinguish Fortran's attributes from C's (MPI 4.1, 19.3.7).
//!
//! The Fortran library implements Fortran's procedures with calls of C procedures, which pass these
//! marks to the runtime.

use core::ffi::c_int;

/// Bit that marks the address of a callback as the address of a closure.
///
/// A closure is a block in the program's memory whose first word is the address of the code. The
/// code receives the block as its fifth argument.
pub const CLOSURE: usize = 1 << 63;

/// Number added to an attribute key whose values are address-sized integers.
pub const INTEGER_KEY_OFFSET: c_int = 1 << 28;
/// Bit that marks the address of an attribute key's copy function.
///
/// The copy and delete functions of such a key take and return integers of the size of an address.
pub const INTEGER_FUNCTION_MARK: usize = CLOSURE;
