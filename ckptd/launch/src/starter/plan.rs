//! The plan of a job: its processes, program and hosts.

use super::agent::Agent;
use super::hosts::{Host, RankOrder};
use crate::job_environment::Environment;
use std::ffi::OsString;
use std::path::PathBuf;

/// The processes, program and hosts of a job.
pub struct Plan {
    pub workers: u32,
    pub spares: u32,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// The preload library for the program's MPI library.
    pub preload: OsString,
    /// Name of the MPI library of a program that opens the library late.
    pub mpi: Option<PathBuf>,
    /// Hosts of the processes; empty if all run on this host.
    pub hosts: Vec<Host>,
    pub rank_order: RankOrder,
    pub agent: Agent,
    /// The executable `ckptd`, on all hosts.
    pub ckptd: PathBuf,
    /// Variables of the processes, beside those of the starter.
    pub environment: Environment,
}
