//! The *shim*: the first library of the second and of the third namespace.
//!
//! The first object of a namespace is its global scope. The symbols that the shim exports therefore
//! precede libc's for all other libraries of the namespace: the runtime, or libmpi and its
//! dependencies. The shim
//!
//! - keeps descriptors of the runtime and MPI sides above the program's;
//! - creates their threads on separate stacks;
//! - writes the MPI library's output past the relay;
//! - prevents SIGPIPE for broken pipes;
//! - delays exits that the MPI library requests;
//! - lets long waits sleep;
//! - gives the namespace's libc the launcher's environment, which the program does not see.
//!
//! The shim uses neither std nor a heap.
#![no_std]

mod descriptors;
mod ends;
mod progress;
mod raw;
mod real;
mod scope;
mod sockets;
mod start;
mod streams;
mod table;
mod threads;
mod time;
mod waits;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ends::abort(0)
}

understudy_abi::without_unwinder!();
