//! `understudy doctor` on this machine, and with defects that it must find.

use ffi_tests::command::{CommandResult, UnderstudyCommand};
use ffi_tests::paths;
use regex::Regex;
use std::process::Command;

fn doctor(arguments: &[&str]) -> CommandResult {
    UnderstudyCommand::new(&std::env::temp_dir(), &[&["doctor"], arguments].concat()).run()
}

fn text(ran: &CommandResult) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Returns the number after `"name":`.
fn number(json: &str, name: &str) -> u64 {
    let pattern = Regex::new(&format!("\"{name}\": ([0-9]+)")).expect("a pattern");
    let found = pattern
        .captures(json)
        .unwrap_or_else(|| panic!("no {name} in {json}"));
    found[1].parse().expect("a number")
}

#[test]
fn where_the_tests_run_jobs_can_be_protected() {
    let ran = doctor(&[]);
    ran.assert(0, &[]);
    let text = text(&ran);
    assert!(text.ends_with("Protected jobs can run here.\n"), "{text}");
    for name in [
        "mpirun",
        "understudy",
        "address randomisation",
        "PAGEMAP_SCAN",
        "/dev/shm",
        "memory",
        "protected job",
    ] {
        assert!(text.contains(name), "no {name}: {text}");
    }
}

/// `understudy run` needs no mpirun, so jobs are protected without one or with MPICH's.
#[test]
fn no_mpirun_or_that_of_mpich_is_no_failure() {
    let empty = tempfile::tempdir().expect("there is room for temporary files");
    let mpich = paths::mpich();
    for path in [empty.path(), &mpich] {
        let ran = UnderstudyCommand::new(&std::env::temp_dir(), &["doctor"])
            .env("PATH", &path.to_string_lossy())
            .run();
        ran.assert(0, &[]);
        let text = text(&ran);
        assert!(text.contains("no mpirun is needed"), "{text}");
        assert!(text.ends_with("Protected jobs can run here.\n"), "{text}");
        if path == mpich {
            assert!(text.contains("/libmpi.so.12 (MPICH 5.0.2))"), "{text}");
        }
    }
}

/// The directory of understudy has another library in place of the runtime.
#[test]
fn a_job_that_cannot_be_protected_is_a_failure() {
    let directory = tempfile::tempdir().expect("there is room");
    let layer = paths::preload_library();
    let products = layer.parent().expect("a directory");
    for (file, name) in [
        ("libunderstudy.so", "libunderstudy.so"),
        ("libunderstudy_shim.so", "libunderstudy_shim.so"),
        ("libunderstudy_shim.so", "libunderstudy_runtime.so"),
        ("ckptd", "ckptd"),
    ] {
        std::fs::copy(products.join(file), directory.path().join(name)).expect("there is room");
    }
    let library = directory.path().join("libunderstudy.so");
    let ran = doctor(&["--library", &library.to_string_lossy()]);
    ran.assert(1, &[]);
    let text = text(&ran);
    assert!(text.contains("FAILURE  protected job"), "{text}");
    assert!(
        text.contains("libunderstudy_runtime.so is of another version"),
        "{text}"
    );
    assert!(text.contains("Protected jobs cannot run here"), "{text}");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_short_run_measures_the_memory_of_a_job() {
    // Two fields of 1500 × 1500 doubles, shared by three workers.
    let field = 2 * 1500 * 1500 * 8 / 3;
    let heat = paths::example("heat2d").to_string_lossy().into_owned();
    let ran = doctor(&[
        "--json",
        "-n",
        "3",
        "--seconds",
        "5",
        "--",
        &heat,
        "1500",
        "1500",
        "1000000",
    ]);
    ran.assert(0, &[]);
    let text = text(&ran);
    assert!(text.contains("\"can_run\": true"), "{text}");
    let program = number(&text, "program");
    assert!(
        (field / 2..2 * field).contains(&program),
        "{program} instead of about {field}"
    );
    assert!(number(&text, "1") > 2 * program && number(&text, "2") > number(&text, "1"));
    assert!(number(&text, "xor:4") > 2 * program);
    assert_eq!(ran.left, Vec::<String>::new());
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_host_checks_itself() {
    let ran = doctor(&["--host", "localhost:2"]);
    ran.assert(0, &[]);
    let text = text(&ran);
    assert!(
        text.contains("1 of one kind") && text.contains("all checks"),
        "{text}"
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_program_that_is_not_protected_is_no_success() {
    let ran = doctor(&["--seconds", "2", "--", "true"]);
    ran.assert(1, &[]);
    assert!(
        text(&ran).contains("could not be protected"),
        "{}",
        text(&ran)
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_program_that_fails_is_not_called_fine() {
    let endings = paths::test_program("endings")
        .to_string_lossy()
        .into_owned();
    let ran = doctor(&["-n", "3", "--seconds", "20", "--", &endings, "exit", "1"]);
    ran.assert(1, &[]);
    assert!(
        text(&ran).contains("failed with exit status 5"),
        "{}",
        text(&ran)
    );
}

#[test]
fn settings_are_checked() {
    let run_with = |name: &str, value: &str| {
        let arguments: &[&str] = &["doctor"];
        UnderstudyCommand::new(&std::env::temp_dir(), arguments)
            .env(name, value)
            .run()
    };
    let ran = run_with("UNDERSTUDY_SPARE", "2");
    ran.assert(0, &[]);
    assert!(
        text(&ran).contains("did you mean UNDERSTUDY_SPARES?"),
        "{}",
        text(&ran)
    );
    let ran = run_with("UNDERSTUDY_COPIES", "3");
    ran.assert(1, &[]);
    assert!(
        text(&ran).contains("UNDERSTUDY_COPIES: `3` is none of"),
        "{}",
        text(&ran)
    );
}

#[test]
fn what_is_missing_is_found_and_named() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let script = |name: &str, words: &str| {
        let path = work.path().join(name);
        paths::script(&path, &format!("#!/bin/sh\necho '{words}'\n"));
    };
    script("mpirun", "mpirun (Open MPI) 4.0.7");
    let cases: &[(&[&str], (&str, &str), &str)] = &[
        (
            &["--mpirun", "nompirun"],
            ("A", "1"),
            "there is no nompirun on the PATH",
        ),
        (&["--mpirun", "./mpirun"], ("A", "1"), "4.0.7 is too old"),
        (
            &["--library", "./mpirun"],
            ("A", "1"),
            "libunderstudy_shim.so is not beside",
        ),
        (&[], ("OMPI_MCA_pml", "ucx"), "unset OMPI_MCA_pml"),
        (&[], ("OMPI_MCA_coll", "han"), "which ranks share a node"),
    ];
    for (arguments, (name, value), words) in cases {
        let ran = UnderstudyCommand::new(work.path(), &[&["doctor"], *arguments].concat())
            .env(name, value)
            .run();
        ran.assert(1, &[]);
        let text = text(&ran);
        assert!(
            text.contains("FAILURE") && text.contains(words),
            "{words}: {text}"
        );
    }
}

/// A driver's library is judged by its functions, with or without a device.
#[test]
fn a_driver_of_accelerators_is_checked() {
    for (kind, words) in [
        ("new", "(CUDA 12.8) can save"),
        ("old", "(CUDA 12.4) cannot save"),
    ] {
        let library = paths::test_program("accelerator")
            .with_file_name("accelerators")
            .join(kind);
        let arguments: &[&str] = &["doctor"];
        let ran = UnderstudyCommand::new(&std::env::temp_dir(), arguments)
            .env("LD_LIBRARY_PATH", &library.to_string_lossy())
            .run();
        ran.assert(0, &[]);
        assert!(text(&ran).contains(words), "{words}: {}", text(&ran));
    }
}

#[test]
fn limits_of_the_shell_are_seen() {
    let doctor = paths::product("understudy");
    for (limit, words) in [
        ("ulimit -n 256", "at most 256"),
        ("ulimit -v 8000000", "limited to"),
    ] {
        let line = format!("{limit}; exec {} doctor", doctor.display());
        let output = Command::new("sh")
            .args(["-c", &line])
            .output()
            .expect("there is a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(words), "{text}");
    }
}
