//! `understudy trace` says where a program's initialisation phase ends, and the setting that it recommends does that.

use ffi_tests::command::Understudy;
use ffi_tests::programs::{self, Case};
use ffi_tests::shared::native;
use ffi_tests::{Job, place};
use std::collections::BTreeSet;
use understudy_formats::events::Kind;

const WORKERS: u32 = 4;

/// Traces a program with these arguments; the recommended setting. Its report has all of these words.
fn recommended(
    program: &std::path::Path,
    arguments: &[&str],
    input: Option<(&str, &str)>,
    words: &[&str],
) -> String {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    if let Some((name, text)) = input {
        std::fs::write(work.path().join(name), text).expect("the directory is writable");
    }
    let program = program.to_string_lossy();
    let mpirun =
        "trace -- mpirun --oversubscribe --mca btl self,sm --mca mpi_yield_when_idle 1 -n 4";
    let line: Vec<&str> = mpirun
        .split(' ')
        .chain([&*program])
        .chain(arguments.iter().copied())
        .collect();
    let ran = Understudy::new(work.path(), &line).run();
    ran.assert(0, words);
    let reports = ran.stderr.matches("recommended: ").count();
    assert_eq!(reports, 1, "{}", ran.stderr);
    let setting = ran.stderr.split("recommended: UNDERSTUDY_INIT_END=").nth(1);
    let setting = setting
        .and_then(|rest| rest.lines().next())
        .unwrap_or_default();
    println!("{program}: {setting}");
    setting.to_owned()
}

/// With the setting, every worker is rehearsed long before the first interval is over.
fn ends_the_phase(case: &Case, setting: &str) {
    let outcome = case
        .job()
        .interval("1h")
        .env("UNDERSTUDY_REHEARSE", "all")
        .env("UNDERSTUDY_INIT_END", setting)
        .run();
    outcome.assert_success();
    outcome.assert_like_after(&native(case.job()), case.files, case.canonical);
    let events = (0..WORKERS).flat_map(|rank| outcome.events(rank));
    let rehearsed: BTreeSet<u32> = events
        .filter_map(|record| match record.kind {
            Kind::Rehearsal {
                worker,
                failure: None,
                ..
            } => Some(worker.0),
            _ => None,
        })
        .collect();
    outcome.check(
        rehearsed.into_iter().eq(0..WORKERS),
        "not every worker was rehearsed",
    );
}

#[test]
fn heat2d_is_traced() {
    let setting = recommended(
        &place::example("heat2d"),
        &["200", "200", "300", "heat.field"],
        None,
        &["4 workers", "MPI_Irecv at main+0x", "(heat2d)"],
    );
    ends_the_phase(&programs::heat2d(), &setting);
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_is_traced_into_its_library() {
    let arguments = ["150", "150", "7", "cg.solution", "--max-iterations", "70"];
    let words = ["MPI_Alltoallv at gs_setup+0x", "(libgs.so)"];
    let setting = recommended(&place::example("cg-shared"), &arguments, None, &words);
    ends_the_phase(&programs::cg_shared(), &setting);
}

#[test]
#[ignore = "a variant: make test-all"]
fn sem_is_traced() {
    let arguments = ["4", "4", "12", "10", "sem.solution"];
    let setting = recommended(&place::example("sem"), &arguments, None, &["MPI_Bcast at "]);
    ends_the_phase(&programs::sem(), &setting);
}

#[test]
#[ignore = "a variant: make test-all"]
fn lammps_is_traced() {
    let Some(case) = programs::lammps() else {
        return;
    };
    let program = place::on_path("lmp").unwrap_or_default();
    let input = ("melt.in", programs::LAMMPS_INPUT);
    let arguments = ["-in", "melt.in", "-log", "none"];
    let setting = recommended(
        &program,
        &arguments,
        Some(input),
        &["MPI_Sendrecv at ", "(liblammps.so"],
    );
    ends_the_phase(&case, &setting);
}

/// Spares that are asked for are there, so that the program has as many ranks as in a protected run.
#[test]
#[ignore = "a variant: make test-all"]
fn a_protected_job_may_be_traced_as_it_is() {
    let case = programs::short_heat2d();
    let outcome = case.job().env("UNDERSTUDY_TRACE", "1").run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.check(
        outcome.stderr.contains("understudy trace: 4 workers"),
        "another number of workers",
    );
    let none: Job = case
        .job()
        .env("UNDERSTUDY_TRACE", "1")
        .env("UNDERSTUDY_SPARES", "");
    let outcome = none.run();
    outcome.assert_success();
    outcome.check(
        outcome.stderr.contains("understudy trace: 5 workers"),
        "another number of workers",
    );
}
