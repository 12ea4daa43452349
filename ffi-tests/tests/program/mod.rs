//! After a failure, the program's state outside of MPI is that of the checkpoint.
//!
//! The state consists of libraries, threads, signals, kernel objects and devices. Programs begin
//! and end in any way.

mod accelerators;
mod closing;
mod endings;
mod examples;
mod forked_children;
mod kernel_state;
mod late;
mod libraries;
mod plugins;
mod signals;
mod threads;
