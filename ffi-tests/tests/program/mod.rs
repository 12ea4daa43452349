//! State of the program outside of MPI is as at the checkpoint after a failure.
//!
//! The state consists of libraries, threads, signals, kernel objects and devices. Programs begin
//! and end in any way.

mod accelerators;
mod closing;
mod endings;
mod examples;
mod kernel_state;
mod late;
mod libraries;
mod plugins;
mod signals;
mod threads;
