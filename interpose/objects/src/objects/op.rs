//! Operators of the program (MPI 4.1, 6.9.5).
//!
//! The real library calls a reduction function on the runtime's stack and with a real datatype. The
//! program's function needs the program's stack and the program's handle. A real operator is
//! therefore created with one of a fixed number of *trampolines*, each of which calls one function
//! of the program. The assignment of trampolines to operators is local to this process.

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
