//! The *shim*: the first library of the runtime's and of the MPI library's namespace.
//!
//! The first object of a namespace is its global scope. The symbols that the shim exports therefore
//! precede libc's for all other libraries of the namespace: the runtime, or libmpi and its
//! dependencies. The shim
//!
//! - keeps descriptors of the runtime and MPI sides above the program's;
//! - excludes mappings of devices from forked children;
//! - creates their threads on separate stacks;
//! - writes the MPI library's output past the relay;
//! - prevents SIGPIPE for sockets whose peer has failed;
//! - delays exits that the MPI library requests;
//! - lets receives fail that libfabric ends because of a failure;
//! - lets MPI calls that wait yield the processor, and sleep if they wait for long;
//! - opens libraries without RTLD_GLOBAL, and treats syscall(2) like libc's functions where their
//!   redefinition matters;
//! - gives the namespace's libc the launcher's environment, which the program does not see.
//!
//! The shim uses neither std nor a heap.
#![no_std]

mod delayed_exits;
mod descriptor_table;
mod descriptors;
mod device_mappings;
mod libfabric;
mod namespace_search;
mod progress;
mod raw;
mod real;
mod scope;
mod sockets;
mod start;
mod streams;
mod threads;
mod time;
mod waits;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    delayed_exits::abort(0)
}

understudy_abi::without_unwinder!();
