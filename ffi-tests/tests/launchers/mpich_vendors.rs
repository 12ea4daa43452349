//! Libraries of other vendors with the name and the ABI of MPICH, such as MVAPICH.
//!
//! Such libraries are in no package index. Copies of MPICH's library take their place, in which
//! texts of equal length are replaced.

use ffi_tests::command::UnderstudyCommand;
use ffi_tests::native_runs::native;
use ffi_tests::programs::HEAT2D;
use ffi_tests::{Job, Kill, REFUSED, Trigger, paths};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const HEAT_FILES: [&str; 2] = ["heat.field", "heat.log"];

/// Copy of MPICH's library.
struct Copy {
    directory: TempDir,
    program: PathBuf,
}

impl Copy {
    /// Makes a copy in which texts are replaced; `None` if MPICH is not installed.
    fn new(replacements: &[(&str, &str)]) -> Option<Copy> {
        let program = paths::mpich_example("heat2d")?;
        let library = paths::mpich().with_file_name("lib").join("libmpi.so.12");
        let mut bytes = std::fs::read(library).expect("MPICH has a library");
        for (from, to) in replacements {
            assert_eq!(from.len(), to.len());
            let places: Vec<usize> = bytes
                .windows(from.len())
                .enumerate()
                .filter(|(_, window)| *window == from.as_bytes())
                .map(|(place, _)| place)
                .collect();
            assert!(!places.is_empty(), "the library lacks {from:?}");
            for place in places {
                bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
            }
        }
        let directory = tempfile::tempdir().expect("there is room");
        std::fs::write(directory.path().join("libmpi.so.12"), bytes).expect("there is room");
        Some(Copy { directory, program })
    }

    /// Value of LD_LIBRARY_PATH: the copy, and the libraries that it needs.
    fn search_path(&self) -> String {
        let libraries = paths::mpich().with_file_name("lib").join("mpich");
        format!(
            "{}:{}",
            self.directory.path().display(),
            libraries.display()
        )
    }

    fn job(&self) -> Job {
        Job::new(&self.program, &HEAT2D)
            .workers(2)
            .interval("50calls")
            .of_mpich()
            .env("LD_LIBRARY_PATH", &self.search_path())
    }
}

/// Returns the checks of `understudy doctor` with a program.
///
/// The program runs for longer than the interval at which its processes are examined.
fn doctor(program: &Path, search_path: &str) -> String {
    let program = program.to_string_lossy();
    let arguments = [
        &["doctor", "-n", "2", "--seconds", "5", "--", &program][..],
        &["200", "200", "60000"],
    ];
    let ran = UnderstudyCommand::new(&std::env::temp_dir(), &arguments.concat())
        .env("LD_LIBRARY_PATH", search_path)
        .run();
    ran.assert(0, &[]);
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn a_worker_of_a_program_of_mvapich_dies() {
    let texts = [("MPICH Version:      ", "MVAPICH Version:    ")];
    let Some(mvapich) = Copy::new(&texts) else {
        return;
    };
    let told = doctor(&mvapich.program, &mvapich.search_path());
    let library = mvapich.directory.path().join("libmpi.so.12");
    let described = format!("{} (MVAPICH 5.0.2, ABI of MPICH)", library.display());
    let lines = told.lines().filter(|line| line.contains(&described));
    assert_eq!(lines.count(), 2, "{told}");

    let undisturbed = native(mvapich.job());
    let outcome = mvapich.job().kill(Kill::at(1, Trigger::Lines(20))).run();
    outcome.assert_recovered(&undisturbed, &HEAT_FILES, &[1]);
}

/// The library searches the variables of another process manager, as Cray's does.
#[test]
fn a_library_of_another_process_manager_is_refused_at_once() {
    let texts = ["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID"]
        .map(|name| (format!("\0{name}\0"), format!("\0Q{}\0", &name[1..])));
    let texts = texts.each_ref().map(|(from, to)| (&**from, &**to));
    let Some(other) = Copy::new(&texts) else {
        return;
    };
    let memory = || {
        let names = paths::shared_memory().into_iter().map(|it| it.file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = memory();
    let outcome = other.job().run();
    outcome.assert_status(REFUSED);
    let lines = outcome.own_lines();
    let is_named = lines.iter().any(|line| {
        line.contains("MPICH Version:      5.0.2 finds 1 process(es) instead of 2")
            && line.contains("[mpi-world-differs]")
    });
    assert!(is_named, "{lines:?}");
    let left: Vec<_> = memory().difference(&before).cloned().collect();
    assert!(left.is_empty(), "{left:?}");
}
