//! The plan of a job: its processes, program and hosts.

use super::hosts::{By, Host};
use crate::process_context::ProcessContext;
use std::ffi::OsString;
use std::path::PathBuf;

/// The processes, program and hosts of a job.
pub struct Plan {
    pub workers: u32,
    pub spares: u32,
    /// The program, with its arguments.
    pub program: Vec<OsString>,
    pub preload: OsString,
    /// The MPI library of a program that opens it late, by its name.
    pub mpi: Option<PathBuf>,
    /// Hosts of the processes; empty for this host alone.
    pub hosts: Vec<Host>,
    pub by: By,
    /// Words of the command that starts another on a host; the host's name and that command follow.
    pub agent: Vec<String>,
    pub context: ProcessContext,
}
