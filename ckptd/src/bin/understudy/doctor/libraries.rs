//! The program's own libraries: some cannot be protected, and some only with a setting.

use super::Check;
use crate::run::program;
use object::Endianness;
use object::elf::{DT_NEEDED, Dyn64, FileHeader64};
use object::read::elf::{Dyn, FileHeader};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

const NAME: &str = "the program's libraries";

/// Looks at the program's file and at what the dynamic loader finds for it.
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
        Some(listing) => judge(&listing, &needed(&path), std::env::var_os("OMP_NUM_THREADS").as_deref()),
        None => Vec::new(),
    }
}

/// The libraries that the program's file itself names (elf(5), DT_NEEDED).
fn needed(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    names_in(&bytes).unwrap_or_default()
}

fn names_in(bytes: &[u8]) -> object::Result<Vec<String>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, bytes, link)?;
    let named = entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED));
    let name =
        |entry: &Dyn64<Endianness>| Some(String::from_utf8_lossy(entry.string(endian, strings).ok()?).into_owned());
    Ok(named.filter_map(name).collect())
}

/// The libraries of a program, a line each (ld.so(8), LD_TRACE_LOADED_OBJECTS); `None` of a script.
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
    let output = loader.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn judge(listing: &str, needed: &[String], threads: Option<&OsStr>) -> Vec<Check> {
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
    const FORTRAN: [&str; 2] = ["libmpi_mpifh.so", "libmpi_usempi"];
    if let Some(found) = first(&FORTRAN) {
        let is_own = needed
            .iter()
            .any(|name| FORTRAN.iter().any(|start| name.starts_with(start)));
        checks.push(match is_own {
            true => Check::failure(
                NAME,
                format!("{found}: Open MPI's Fortran bindings, which cannot be protected"),
                "none yet for Fortran programs",
            ),
            false => Check::warning(
                NAME,
                format!(
                    "one of them brings {found}, Open MPI's Fortran bindings; a call through them ends a protected job"
                ),
                "try it; if the program needs that library's Fortran part, there is no remedy yet",
            ),
        });
    }
    let own = first(&["libmpi.so.40"]);
    match (first(&["libmpi.so.12", "libmpich", "libmpi_cray", "libmsmpi"]), own) {
        (Some(other), _) => checks.push(Check::failure(
            NAME,
            format!("{other} is another MPI than Open MPI"),
            "build the program with the mpicc of Open MPI",
        )),
        (None, None) => checks.push(Check::warning(
            NAME,
            "it is not linked with libmpi.so.40 (Open MPI)",
            "none if it loads MPI while it runs, as Python does; else build it with the mpicc of Open MPI",
        )),
        (None, Some(_)) => {}
    }
    let pool = first(&["libgomp.so", "libomp.so", "libiomp5.so", "libtbb.so", "libopenblas"]);
    if let Some(pool) = pool
        && threads != Some(&OsString::from("1"))
    {
        checks.push(Check::warning(
            NAME,
            format!("{pool} may start threads; with threads of its own a program is not protected"),
            "OMP_NUM_THREADS=1 (OPENBLAS_NUM_THREADS=1), and one rank for each core",
        ));
    }
    if checks.is_empty() {
        checks.push(Check::ok(NAME, "nothing that stands in the way"));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    fn graded(listing: &str, threads: Option<&str>) -> Vec<(Grade, String)> {
        let needed = listing.lines().filter_map(|line| line.split_whitespace().next());
        let needed: Vec<String> = needed.map(str::to_owned).collect();
        let checks = judge(listing, &needed, threads.map(OsStr::new));
        checks.into_iter().map(|check| (check.grade, check.finding)).collect()
    }

    const MPI: &str =
        "\tlibmpi.so.40 => /opt/lib/libmpi.so.40 (0x7f0000000000)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n";

    #[test]
    fn libraries_that_cannot_be_protected_are_named() {
        assert_eq!(graded(MPI, None)[0].0, Grade::Ok);
        for (more, words) in [
            (
                "\tlibmpi_mpifh.so.40 => /opt/lib/libmpi_mpifh.so.40 (0x7f)\n",
                "Fortran",
            ),
            ("\tlibmpi.so.12 => /opt/mpich/libmpi.so.12 (0x7f)\n", "another MPI"),
            ("\tlibfft.so.3 => not found\n", "libfft.so.3 is not found"),
        ] {
            let found = graded(&format!("{MPI}{more}"), None);
            assert!(found[0].0 == Grade::Failure && found[0].1.contains(words), "{found:?}");
        }
        assert!(
            graded("\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n", None)[0]
                .1
                .contains("not linked with libmpi.so.40")
        );
    }

    #[test]
    fn a_file_names_its_libraries() {
        let own = needed(Path::new("/proc/self/exe"));
        assert!(own.iter().any(|name| name == "libc.so.6"), "{own:?}");
        assert!(names_in(b"no program").is_err());
    }

    #[test]
    fn pools_of_threads_are_told_of_unless_they_have_one() {
        let listing = format!("{MPI}\tlibgomp.so.1 => /lib/libgomp.so.1 (0x7f)\n");
        assert_eq!(graded(&listing, None)[0].0, Grade::Warning);
        assert_eq!(graded(&listing, Some("4"))[0].0, Grade::Warning);
        assert_eq!(graded(&listing, Some("1"))[0].0, Grade::Ok);
    }
}
