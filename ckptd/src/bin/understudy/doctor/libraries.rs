//! Checks of the program's own libraries, some of which cannot be protected.

use super::{Check, mpi_version};
use crate::run::program;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use understudy_pmi::MpiKind;

const NAME: &str = "the program's libraries";

/// Checks the program's file and the libraries that the dynamic loader finds for it.
pub fn check(name: &OsStr) -> Vec<Check> {
    if let Err(why) = program::check(name) {
        return vec![Check::failure(
            "the program",
            why.message(),
            "name a program that can be run",
        )];
    }
    let Ok(path) = program::find(name) else {
        return Vec::new();
    };
    match loaded(&path) {
        Some(listing) => judge(&listing, mpi_version::describe),
        None => Vec::new(),
    }
}

/// Describes the MPI library that the dynamic loader finds for a program.
pub fn mpi_of(program: &OsStr) -> Option<String> {
    let listing = loaded(Path::new(program))?;
    let library = listing.lines().find_map(mpi_library)?;
    Some(mpi_version::describe(Path::new(library)))
}

/// Lists the libraries of a program (ld.so(8), LD_TRACE_LOADED_OBJECTS).
///
/// Returns one library per line, or `None` if the program is a script or cannot be executed.
fn loaded(path: &Path) -> Option<String> {
    if program::head(path).ok()?.starts_with(b"#!") {
        return None;
    }
    let path = path.canonicalize().ok()?;
    let mut loader = Command::new(path);
    loader.env_clear().env("LD_TRACE_LOADED_OBJECTS", "1");
    if let Some(directories) = std::env::var_os("LD_LIBRARY_PATH") {
        loader.env("LD_LIBRARY_PATH", directories);
    }
    let output = loader
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Judges a listing; `describe` describes an MPI library.
fn judge(listing: &str, describe: impl Fn(&Path) -> String) -> Vec<Check> {
    let names: Vec<&str> = listing
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let first = |starts: &[&str]| {
        let is_one = |name: &&&str| starts.iter().any(|start| name.starts_with(start));
        names.iter().find(is_one).copied()
    };
    let mut checks = Vec::new();
    let lost = listing
        .lines()
        .find_map(|line| line.trim().strip_suffix(" => not found"));
    if let Some(lost) = lost {
        checks.push(Check::failure(
            NAME,
            format!("{lost} is not found"),
            "set LD_LIBRARY_PATH, or load its module",
        ));
    }
    if !names.iter().any(|name| MpiKind::of(name).is_some()) {
        checks.push(match first(&["libmpi", "libmsmpi"]) {
            Some(cray) if is_of_cray(cray) => Check::failure(
                NAME,
                format!("{cray} is Cray MPICH, which gets the ranks from Cray's process manager"),
                "build the program with the mpicc of Open MPI or MPICH",
            ),
            Some(other) => Check::failure(
                NAME,
                format!("{other} is another MPI than Open MPI and MPICH"),
                "build the program with the mpicc of one of them",
            ),
            None => Check::warning(
                NAME,
                "it is not linked with an MPI library",
                "none if it loads MPI while it runs, as Python does; else build it with the mpicc \
                 of Open MPI or MPICH",
            ),
        });
    }
    if checks.is_empty() {
        let mpi = listing.lines().find_map(mpi_library).unwrap_or_default();
        let mpi = describe(Path::new(mpi));
        let finding = format!("it can be protected; its MPI library is {mpi}");
        checks.push(Check::ok(NAME, finding));
    }
    checks
}

/// Returns true for the names of Cray MPICH.
///
/// The names are `libmpi_` and a compiler, perhaps with the compiler's version.
fn is_of_cray(name: &str) -> bool {
    let compilers = ["cray", "gnu", "nvidia", "amd", "aocc", "intel"];
    let rest = name.strip_prefix("libmpi_");
    rest.is_some_and(|rest| compilers.iter().any(|compiler| rest.starts_with(compiler)))
}

/// Returns the file of an MPI library in a line of the loader.
fn mpi_library(line: &str) -> Option<&str> {
    let (name, rest) = line.trim().split_once(" => ")?;
    MpiKind::of(name)?;
    Some(rest.rsplit_once(" (0x").map_or(rest, |(path, _)| path))
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    fn graded(listing: &str) -> Vec<(Grade, String)> {
        judge(listing, |path| path.display().to_string())
            .into_iter()
            .map(|check| (check.grade, check.finding))
            .collect()
    }

    const MPI: &str = "\tlibmpi.so.40 => /opt/lib/libmpi.so.40 (0x7f0000000000)\n\tlibc.so.6 => \
        /lib/libc.so.6 (0x7f)\n";

    #[test]
    fn libraries_that_cannot_be_protected_are_named() {
        for more in [
            "",
            "\tlibmpi_mpifh.so.40 => /opt/lib/libmpi_mpifh.so.40 (0x7f)\n",
            "\tlibgomp.so.1 => /lib/libgomp.so.1 (0x7f)\n",
        ] {
            assert_eq!(graded(&format!("{MPI}{more}"))[0].0, Grade::Ok, "{more}");
        }
        let (grade, mpich) = &graded("\tlibmpi.so.12 => /opt/mpich/libmpi.so.12 (0x7f)\n")[0];
        assert_eq!(*grade, Grade::Ok);
        assert!(mpich.ends_with("is /opt/mpich/libmpi.so.12"), "{mpich}");
        let lost = &graded(&format!("{MPI}\tlibfft.so.3 => not found\n"))[0];
        assert!(
            lost.0 == Grade::Failure && lost.1.contains("libfft.so.3 is not found"),
            "{lost:?}"
        );
        let other = &graded("\tlibmpi.so.20 => /opt/old/libmpi.so.20 (0x7f)\n")[0];
        assert!(
            other.0 == Grade::Failure && other.1.contains("another MPI"),
            "{other:?}"
        );
        let cray = &graded("\tlibmpi_gnu_91.so.12 => /opt/cray/libmpi_gnu_91.so.12 (0x7f)\n")[0];
        assert!(
            cray.0 == Grade::Failure && cray.1.contains("libmpi_gnu_91.so.12 is Cray MPICH"),
            "{cray:?}"
        );
        let none = &graded("\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n")[0];
        assert!(
            none.0 == Grade::Warning && none.1.contains("not linked with"),
            "{none:?}"
        );
    }
}
