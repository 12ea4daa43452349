//! Tests that run jobs; each folder states the promise that its tests show.
//!
//! `.config/nextest.toml` states which tests need the machine for themselves.

mod failures;
mod hostile;
mod input_output;
mod installation;
mod launchers;
mod mpi;
mod performance;
mod persistence;
mod program;
mod refused;
mod replicas;
mod tools;
