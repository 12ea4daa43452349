//! The *shim*: the first library of the second namespace.
//!
//! The first object of a namespace is its global scope, so what the shim exports stands before libc
//! for every library that follows: libmpi, its closure, and the runtime. It keeps the runtime
//! side's descriptors above the user side's, gives its threads stacks of their own, leads what they
//! print past the relay, keeps broken pipes from raising SIGPIPE and the MPI library from ending
//! its process, lets long waits sleep, and gives the second libc the environment that the user side
//! does not see. No std, no heap.
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
