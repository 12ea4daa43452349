//! Requirements of tests beyond the build, and tests that are skipped without them.
//!
//! `FFI_TESTS_REQUIRE` names requirements that must be met, separated by commas, or is `all`. A
//! test that would be skipped for want of a named requirement fails. Other skipped tests are
//! recorded in the file `skipped` of the run's directory, and `ffi-tests/run` lists these tests at
//! the end.

use crate::run_directory;
use std::io::Write;

/// Something that a test needs and that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Control groups that this user may make.
    ControlGroups,
    /// The distribution's MPICH (`make fortran`).
    DebianMpich,
    /// Root file systems of other distributions (`make distributions`).
    Distributions,
    /// Fortran, and the distribution's Open MPI (`make fortran`).
    Fortran,
    /// Grid Engine (`make gridengine`).
    GridEngine,
    /// Intel MPI (`make intelmpi`).
    IntelMpi,
    /// LAMMPS (`make lammps`).
    Lammps,
    /// A launcher for which the test makes sense (`FFI_TESTS_LAUNCHER`).
    Launcher,
    /// Libraries of the distribution: HDF5, netCDF, PETSc, `EZTrace` (`make libraries`).
    Libraries,
    /// A feature of the processor or of the kernel.
    Machine,
    /// MPICH (`make setup`).
    Mpich,
    /// Namespaces, several users and mounts, which only root may create.
    Namespaces,
    /// Packages of Python, among them LAMMPS with threads (`make python`).
    Python,
    /// Slurm (`make slurm`).
    Slurm,
    /// Tools of other projects, such as gdb, valgrind, chromium and environment modules.
    Tools,
}

impl Requirement {
    const ALL: [Requirement; 15] = [
        Requirement::ControlGroups,
        Requirement::DebianMpich,
        Requirement::Distributions,
        Requirement::Fortran,
        Requirement::GridEngine,
        Requirement::IntelMpi,
        Requirement::Lammps,
        Requirement::Launcher,
        Requirement::Libraries,
        Requirement::Machine,
        Requirement::Mpich,
        Requirement::Namespaces,
        Requirement::Python,
        Requirement::Slurm,
        Requirement::Tools,
    ];

    /// Name in `FFI_TESTS_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Requirement::ControlGroups => "control-groups",
            Requirement::DebianMpich => "debian-mpich",
            Requirement::Distributions => "distributions",
            Requirement::Fortran => "fortran",
            Requirement::GridEngine => "grid-engine",
            Requirement::IntelMpi => "intelmpi",
            Requirement::Lammps => "lammps",
            Requirement::Launcher => "launcher",
            Requirement::Libraries => "libraries",
            Requirement::Machine => "machine",
            Requirement::Mpich => "mpich",
            Requirement::Namespaces => "namespaces",
            Requirement::Python => "python",
            Requirement::Slurm => "slurm",
            Requirement::Tools => "tools",
        }
    }

    /// True if a value of `FFI_TESTS_REQUIRE` names this requirement.
    ///
    /// # Panics
    /// Panics if the value has an unknown name.
    fn is_named_in(self, value: &str) -> bool {
        let mut names = value.split(',').filter(|name| !name.is_empty());
        names.clone().for_each(|name| {
            let is_known = name == "all" || Requirement::ALL.iter().any(|it| it.name() == name);
            assert!(is_known, "FFI_TESTS_REQUIRE has the unknown name `{name}`");
        });
        names.any(|name| name == "all" || name == self.name())
    }
}

/// Name of the running test; outside of nextest, the name of this thread.
fn test_name() -> String {
    let own = std::thread::current();
    std::env::var("NEXTEST_TEST_NAME")
        .unwrap_or_else(|_| own.name().unwrap_or("unknown test").to_owned())
}

/// Records that the running test lacks a requirement, and so tests less or nothing.
///
/// # Panics
/// Panics if `FFI_TESTS_REQUIRE` names the requirement.
pub fn skip(requirement: Requirement, reason: &str) {
    let value = std::env::var("FFI_TESTS_REQUIRE").unwrap_or_default();
    assert!(
        !requirement.is_named_in(&value),
        "FFI_TESTS_REQUIRE={value}, but the test would be skipped: {reason}"
    );
    let line = format!("{}\t{reason}\t{}\n", requirement.name(), test_name());
    let path = run_directory::path().join("skipped");
    // Short writes to a file that is opened for appending are not interleaved (write(2)).
    let mut options = std::fs::File::options();
    let file = options.create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{} cannot be written: {error}", path.display()));
    println!("SKIPPED: {reason}");
}

#[cfg(test)]
mod tests {
    use super::Requirement;

    #[test]
    fn a_requirement_is_named_alone_or_by_all() {
        assert!(Requirement::Slurm.is_named_in("all"));
        assert!(Requirement::Slurm.is_named_in("mpich,slurm"));
        assert!(!Requirement::Slurm.is_named_in("mpich"));
        assert!(!Requirement::Slurm.is_named_in(""));
    }

    #[test]
    #[should_panic(expected = "unknown name `slurms`")]
    fn an_unknown_name_is_an_error() {
        Requirement::Slurm.is_named_in("slurms");
    }
}
