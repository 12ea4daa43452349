//! Description of a job as given by the user.

use super::hosts::{By, Host};
use std::ffi::OsString;
use std::path::PathBuf;

/// Description of a job as given by the user.
pub struct Plan {
    pub workers: u32,
    pub spares: u32,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    pub preload: OsString,
    /// Name of the MPI library of a program that opens the library late.
    pub mpi: Option<PathBuf>,
    /// Hosts on which the job runs; empty if it runs on this host only.
    pub hosts: Vec<Host>,
    pub by: By,
    /// Command that starts a command on another host: words before the host and the command.
    pub agent: Vec<String>,
}
