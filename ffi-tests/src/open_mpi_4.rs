//! The distribution's older Open MPI (4.1), and Fortran programs.
//!
//! The Fortran programs are linked with the bindings of that Open MPI.

use crate::job::Job;
use crate::paths::{self, Launcher};
use crate::{Requirement, skip};
use std::path::Path;
use std::process::Command;

const LAUNCHER: &str = "/usr/bin/mpirun";

/// Makes a job use the launcher and the library of the distribution's Open MPI 4.1.
///
/// Returns `None`, and prints the reason, if this Open MPI is not installed.
pub fn with_open_mpi_4(job: Job) -> Option<Job> {
    let mut command = Command::new(LAUNCHER);
    let version = command
        .arg("--version")
        .env_remove("LD_LIBRARY_PATH")
        .output();
    let version = version.map(|output| output.stdout).unwrap_or_default();
    if !String::from_utf8_lossy(&version).contains("(Open MPI) 4.1") {
        skip(
            Requirement::Fortran,
            &format!("there is no Open MPI 4.1 in {LAUNCHER}"),
        );
        return None;
    }
    // The libraries of Open MPI 4.1 and 5 are both called libmpi.so.40.
    let library = "/usr/lib/x86_64-linux-gnu/openmpi/lib:/usr/lib/x86_64-linux-gnu";
    let job = job
        .mpirun(Path::new(LAUNCHER))
        .launched_by(Launcher::Mpirun);
    Some(job.env("LD_LIBRARY_PATH", library))
}

/// Makes a job of a Fortran program of the tests.
///
/// Returns `None`, and prints the reason, if the program was not compiled.
pub fn fortran(name: &str, arguments: &[&str]) -> Option<Job> {
    let program = paths::fortran_program(name);
    if program.is_none() {
        skip(
            Requirement::Fortran,
            "there is no gfortran, or no Open MPI with Fortran bindings; try make fortran",
        );
    }
    Some(Job::new(program?, arguments))
}
