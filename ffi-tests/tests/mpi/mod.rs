//! MPI answers a protected program as it answers the program alone.
//!
//! Objects, messages and windows after a failure are those of the checkpoint, and every answer
//! equals that of an undisturbed run.

mod conformance;
pub mod fabrics;
mod fortran;
mod landings;
mod large;
mod mpi4py;
mod multiple;
mod parameters;
mod ports;
mod profilers;
mod programs_table;
mod providers;
mod sessions;
mod spawning;
mod symbols;
