//! The distribution's older Open MPI (4.1) with its launcher, and Fortran programs that are linked
//! with its bindings.

use crate::job::Job;
use crate::place::{self, Launcher};
use std::path::Path;
use std::process::Command;

const LAUNCHER: &str = "/usr/bin/mpirun";

/// Under that launcher, with its library; `None` if there is none, which is said.
pub fn older(job: Job) -> Option<Job> {
    let mut command = Command::new(LAUNCHER);
    let version = command
        .arg("--version")
        .env_remove("LD_LIBRARY_PATH")
        .output();
    let version = version.map(|output| output.stdout).unwrap_or_default();
    if !String::from_utf8_lossy(&version).contains("(Open MPI) 4.1") {
        place::skip(&format!("there is no Open MPI 4.1 in {LAUNCHER}"));
        return None;
    }
    // Either version is called libmpi.so.40.
    let library = "/usr/lib/x86_64-linux-gnu/openmpi/lib:/usr/lib/x86_64-linux-gnu";
    let job = job
        .mpirun(Path::new(LAUNCHER))
        .launched_by(Launcher::Mpirun);
    Some(job.env("LD_LIBRARY_PATH", library))
}

/// A Fortran program of the tests; `None` if no such can be compiled here, which is said.
pub fn fortran(name: &str, arguments: &[&str]) -> Option<Job> {
    let program = place::fortran_program(name);
    if program.is_none() {
        place::skip("there is no gfortran, or no Open MPI with Fortran bindings; try make fortran");
    }
    Some(Job::new(program?, arguments))
}
