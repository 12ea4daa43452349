//! A process that stays what this one was at the end of `MPI_Init`, for replays at any time.
//!
//! The seed is forked there and sleeps until it gets a request, or until this process ends. It has
//! this process's memory of that moment, of which the kernel keeps a copy only where this process
//! has written since. It is no process's child: the program must not meet it when it waits for its
//! own. It does one thing at a time; a request ([`super::seed_request`]) abandons the one before.

mod plant;
mod quiet;
mod work;

pub use plant::plant;
