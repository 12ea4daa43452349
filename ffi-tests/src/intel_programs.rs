//! Programs of Intel MPI, which `make intelmpi` installs.

use crate::job::Job;
use crate::{Requirement, paths, skip};
use std::path::{Path, PathBuf};

/// Builds `programs/SOURCE` with Intel MPI's compiler.
///
/// Returns `None`, and prints the reason, if Intel MPI is not installed.
///
/// # Panics
/// Panics if the program cannot be compiled.
pub fn program(source: &str) -> Option<PathBuf> {
    // `mpicc` executes this script. Its name differs from that of MPICH's compiler, by which
    // compiled programs are distinguished.
    let compiler = paths::intel_mpi().join("bin/mpigcc");
    if !compiler.is_file() {
        skip(
            Requirement::IntelMpi,
            "there is no Intel MPI in .env/intelmpi (make intelmpi)",
        );
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(source);
    Some(paths::compiled_by(&compiler, &source))
}

/// Makes a job of a program of Intel MPI.
///
/// Protected, it runs under `ckptd launch`; native, under Intel MPI's own launcher.
pub fn job(program: &Path, arguments: &[&str]) -> Job {
    let directory = |name: &str| paths::intel_mpi().join(name).to_string_lossy().into_owned();
    Job::new(program, arguments)
        .of_mpich()
        .mpirun(&paths::intel_mpi().join("bin/mpiexec.hydra"))
        .env("I_MPI_ROOT", &directory(""))
        // The library opens the libfabric of its own installation by its name.
        .env("LD_LIBRARY_PATH", &directory("lib"))
        .env("FI_PROVIDER_PATH", &directory("lib"))
        // Ranks that wait spin by default, even if they share a processor.
        .env("I_MPI_THREAD_YIELD", "2")
}
