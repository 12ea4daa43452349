//! What a job is made of, as its user has said.

use super::hosts::{By, Host};
use std::ffi::OsString;
use std::path::PathBuf;

/// What a job is made of.
pub struct Plan {
    pub workers: u32,
    pub spares: u32,
    /// The program, with its arguments.
    pub program: Vec<OsString>,
    pub preload: OsString,
    /// The MPI library of a program that opens it late, by its name.
    pub mpi: Option<PathBuf>,
    /// Where it runs; nowhere but here, if there are none.
    pub hosts: Vec<Host>,
    pub by: By,
    /// What starts a command on another host: words, before that and the command.
    pub agent: Vec<String>,
}
