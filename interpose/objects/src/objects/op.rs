//! Operators of the program (MPI 4.1, 6.9.5).
//!
//! The real library calls a reduction function on the runtime's stack and with its own datatype. A
//! real operator is therefore created with one of a fixed number of *trampolines*, which calls the
//! program's function on the program's stack and with the program's handle. The assignment of
//! trampolines to operators is local to this process. A reduction that is in progress may still
//! call the trampoline of an operator that has been freed, so trampolines are reused as late as
//! possible.

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
