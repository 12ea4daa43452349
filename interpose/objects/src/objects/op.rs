//! Operators of the program (MPI 4.1, 6.9.5).
//!
//! The real library calls a reduction function on the runtime's stack and with its own datatype. So
//! a real operator is made with one of a fixed number of *trampolines*, which calls the program's
//! function on the program's stack and with the program's handle. Which trampoline an operator has
//! is this process's own affair; those that were given up longest ago are taken first, since a
//! reduction that is under way may still call one whose operator has been freed.

mod bindings;
mod op_entries;
mod operator;
mod trampolines;

pub use bindings::Bindings;
pub use op_entries::{
    commutes, create, exists, free, index, no_op, null_handle, rebuild, release, release_all,
    replace, retain, set_inner, sum,
};
pub use operator::{Function, Op};
