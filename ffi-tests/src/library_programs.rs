//! Programs of the distribution's libraries, built with its Open MPI 4.1.
//!
//! The libraries are HDF5, netCDF, PETSc, and MPI's C++ bindings.

use crate::job::Job;
use crate::open_mpi_4::with_open_mpi_4;
use crate::programs::{TestProgram, prints};
use crate::{Requirement, run_directory, skip};
use std::path::{Path, PathBuf};

/// Compiler for C++ of the distribution's Open MPI.
const CXX: &str = "/usr/bin/mpicxx.openmpi";
/// Compiler for C of the distribution's Open MPI.
const CC: &str = "/usr/bin/mpicc.openmpi";
/// Compiler for programs of the distribution's parallel HDF5.
const HDF5: &str = "/usr/bin/h5pcc.openmpi";
/// Directory of the netCDF that writes in parallel.
const NETCDF: &str = "/usr/lib/x86_64-linux-gnu/netcdf/mpi";

/// Returns the directory of PETSc of any version, built for real numbers.
fn petsc() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/petscdir")
        .into_iter()
        .flatten()
        .flatten();
    let build = |version: std::fs::DirEntry| version.path().join("x86_64-linux-gnu-real");
    versions
        .map(build)
        .find(|build| build.join("include/petscksp.h").is_file())
}

/// Compiles a source of `programs/libraries` once.
///
/// Returns `None`, and prints the reason, if the compiler is not installed.
///
/// # Panics
/// Panics if the source cannot be compiled.
fn compiled(source: &str, compiler: &str, before: &[String], behind: &[String]) -> Option<PathBuf> {
    if !Path::new(compiler).is_file() {
        skip(
            Requirement::Libraries,
            &format!("there is no {compiler}; `make libraries` installs it"),
        );
        return None;
    }
    let name = Path::new(source).file_stem().expect("a source has a name");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs/libraries")
        .join(source);
    let compile = |directory: &Path| {
        let mut command = std::process::Command::new(compiler);
        command
            .args(before)
            .arg("-O1")
            .arg("-o")
            .args([&directory.join(name), &source]);
        // The compiler of HDF5 leaves an object file in its working directory.
        command.current_dir(directory);
        let status = command.args(behind).status().expect("an executable");
        assert!(status.success(), "{compiler} fails on {}", source.display());
    };
    let directory = format!("libraries/{}", name.display());
    Some(run_directory::filled_once(&directory, compile).join(name))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A growing HDF5 file, written collectively and independently.
pub fn hdf5() -> Option<TestProgram> {
    program_of_hdf5()?;
    Some(TestProgram {
        files: &["grown.h5"],
        ..prints("HDF5", || {
            let program = program_of_hdf5().expect("the program is compiled");
            Job::new(program, &["40"]).interval("40ms")
        })
    })
}

fn program_of_hdf5() -> Option<PathBuf> {
    compiled("hdf5.c", HDF5, &words("-shlib"), &[])
}

/// A growing netCDF file, written collectively and independently.
pub fn netcdf() -> Option<TestProgram> {
    program_of_netcdf()?;
    Some(TestProgram {
        files: &["grown.nc"],
        ..prints("netCDF", || {
            let program = program_of_netcdf().expect("the program is compiled");
            Job::new(program, &["40"]).interval("40ms")
        })
    })
}

fn program_of_netcdf() -> Option<PathBuf> {
    if !Path::new(NETCDF).is_dir() {
        skip(
            Requirement::Libraries,
            &format!("there is no {NETCDF}; `make libraries` installs it"),
        );
        return None;
    }
    let flags = (
        format!("-I{NETCDF}/include"),
        format!("-L{NETCDF} -lnetcdf"),
    );
    compiled("netcdf.c", CC, &words(&flags.0), &words(&flags.1))
}

/// Systems of equations that PETSc solves by MUMPS.
pub fn mumps() -> Option<TestProgram> {
    program_of_petsc()?;
    Some(TestProgram {
        files: &["u.dat"],
        ..prints("PETSc with MUMPS", || {
            let solver = "-ksp_type preonly -pc_type lu -pc_factor_mat_solver_type mumps";
            let program = program_of_petsc().expect("the program is compiled");
            let arguments = format!("-steps 12 -side 40 {solver}");
            Job::new(program, &arguments.split(' ').collect::<Vec<_>>())
                .workers(3)
                .interval("40ms")
                .env("OMP_NUM_THREADS", "1")
                .env("OPENBLAS_NUM_THREADS", "1")
        })
    })
}

fn program_of_petsc() -> Option<PathBuf> {
    let Some(build) = petsc() else {
        skip(
            Requirement::Libraries,
            "there is no PETSc in /usr/lib/petscdir; `make libraries` installs it",
        );
        return None;
    };
    let build = build.display();
    let flags = (
        format!("-I{build}/include"),
        format!("-L{build}/lib -lpetsc_real -lm"),
    );
    compiled("petsc.c", CC, &words(&flags.0), &words(&flags.1))
}

/// A program of MPI's C++ bindings under the launcher of their Open MPI.
pub fn bindings(arguments: &[&str]) -> Option<Job> {
    let program = compiled("bindings.cpp", CXX, &words("-Wno-cast-function-type"), &[])?;
    with_open_mpi_4(Job::new(program, arguments).interval("40ms"))
}
