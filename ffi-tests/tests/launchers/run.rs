//! `understudy run`: the right command, the program's bytes and status, clear messages.

use ffi_tests::command::{CommandResult, UnderstudyCommand};
use ffi_tests::daemon_process::spares_chosen;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, is_thorough, paths, processes};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub const HEAT: [&str; 3] = ["300", "300", "1500"];

pub fn heat() -> String {
    paths::example("heat2d").to_string_lossy().into_owned()
}

pub fn work() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is room for temporary files")
}

/// Runs `understudy run OPTIONS -- heat2d …` with three workers and two spares.
fn run_heat(work: &Path, options: &[&str]) -> CommandResult {
    let heat = heat();
    let program = [&["--", heat.as_str()], &HEAT[..], &["heat.field"]].concat();
    UnderstudyCommand::new(
        work,
        &[
            &["run", "-n", "3", "--spares", "2", "--interval", "20ms"],
            options,
            &program,
        ]
        .concat(),
    )
    .run()
}

/// Fails unless the output equals that of an undisturbed run.
pub fn assert_undisturbed(ran: &CommandResult, work: &Path) {
    let native = native(Job::new(heat(), &[&HEAT[..], &["heat.field"]].concat()).workers(3));
    assert!(
        ran.stdout == native.stdout,
        "the output differs: {}\n{}",
        ran.line,
        ran.stderr
    );
    assert!(
        std::fs::read(work.join("heat.field")).ok() == native.file("heat.field"),
        "the file differs: {}\n{}",
        ran.line,
        ran.stderr
    );
    assert_eq!(ran.left, Vec::<String>::new(), "{}", ran.line);
}

pub const KILL: &str = "kill rank=1 at=commit.end epoch=2; kill rank=0 at=commit.end epoch=3";

#[test]
fn a_job_that_loses_ranks_ends_well() {
    let work = work();
    let ran = run_heat(work.path(), &["--fault", KILL]);
    ran.assert(
        0,
        &[
            "worker 1 failed",
            "worker 0 failed",
            "no spare left",
            "ended well, no spare left",
            "2 failures, 2 recoveries",
        ],
    );
    assert_undisturbed(&ran, work.path());
    assert!(
        !ran.stderr.contains('\x1b'),
        "escape sequences although standard error is no terminal: {:?}",
        ran.stderr
    );
}

#[test]
fn ckptd_starts_a_job_without_mpirun() {
    let work = work();
    let ran = run_heat(work.path(), &["--launcher", "ckptd", "--fault", KILL]);
    ran.assert(
        0,
        &[
            "worker 1 failed",
            "worker 0 failed",
            "2 failures, 2 recoveries",
        ],
    );
    assert_undisturbed(&ran, work.path());
}

/// The second failure is reported by a spare that was idle during the first failure.
#[test]
#[ignore = "a variant: make test-all"]
fn the_failure_of_a_replacement_is_reported_once() {
    let work = work();
    let fault = "kill rank=1 at=commit.end epoch=2; kill rank=3 at=commit.end epoch=3";
    let ran = run_heat(work.path(), &["--fault", fault]);
    ran.assert(
        0,
        &["worker 1 failed; replaced by rank 4; resumed from checkpoint"],
    );
    assert!(
        !ran.stderr.contains("spare rank 3 failed"),
        "{}",
        ran.stderr
    );
    assert_undisturbed(&ran, work.path());
}

#[test]
fn the_line_at_the_bottom_leaves_the_output_as_it_is() {
    let work = work();
    let ran = run_heat(work.path(), &["--progress", "line", "--fault", KILL]);
    ran.assert(0, &["\r\x1b[2K", "checkpoint"]);
    assert_undisturbed(&ran, work.path());
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_daemon_serves_the_job_and_ends_with_it() {
    for (options, by_daemon) in [
        (&[][..], &[true, true][..]),
        (&["--no-daemon"][..], &[][..]),
    ] {
        let work = work();
        let ran = run_heat(
            work.path(),
            &[&["--fault", KILL, "--events", "events"], options].concat(),
        );
        ran.assert(0, &["2 failures", "worker 1 failed"]);
        assert_undisturbed(&ran, work.path());
        let chosen = spares_chosen(&work.path().join("events"));
        let chosen: Vec<bool> = chosen.iter().map(|choice| choice.by_daemon).collect();
        assert_eq!(chosen, by_daemon, "{}", ran.stderr);
    }
}

/// The job runs without a daemon where none can be started.
#[test]
#[ignore = "a variant: make test-all"]
fn a_job_does_without_a_daemon() {
    let work = work();
    let (copy, layer) = (
        work.path().join("layer"),
        paths::product("libunderstudy.so"),
    );
    std::fs::create_dir(&copy).unwrap();
    for name in [
        "libunderstudy.so",
        "libunderstudy_shim.so",
        "libunderstudy_runtime.so",
    ] {
        std::os::unix::fs::symlink(layer.with_file_name(name), copy.join(name)).unwrap();
    }
    let real = layer.with_file_name("ckptd");
    let only_relays = format!(
        "#!/bin/sh\n[ \"$1\" = serve ] && exit 1\nexec {} \"$@\"\n",
        real.display()
    );
    script(&copy, "ckptd", &only_relays);
    let library = copy.join("libunderstudy.so").to_string_lossy().into_owned();
    let ran = run_heat(work.path(), &["--library", &library, "--fault", KILL]);
    ran.assert(0, &["no daemon (it ended immediately)", "2 failures"]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn event_files_are_kept_where_they_are_wanted() {
    let work = work();
    for options in [
        &["--log-dir", "events", "--progress", "none"][..],
        &["--events", "events", "--spares", "1"],
    ] {
        let ran = run_heat(work.path(), options);
        ran.assert(0, &[]);
        assert_undisturbed(&ran, work.path());
    }
    let entries = std::fs::read_dir(work.path().join("events"))
        .unwrap()
        .flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    let wanted = [
        "rank-0.events",
        "rank-1.events",
        "rank-2.events",
        "rank-3.events",
        "run.json",
    ];
    assert_eq!(names, wanted, "the files should be those of the second job");
}

#[test]
fn a_dry_run_prints_what_a_shell_can_run() {
    let work = work();
    let ran = run_heat(work.path(), &["--dry-run"]);
    ran.assert(0, &[]);
    assert_eq!(
        std::fs::read_dir(work.path()).unwrap().count(),
        0,
        "the dry run has left files"
    );
    let line = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(line.lines().count(), 1);
    assert!(line.contains("ckptd launch -n 3 --spares 2 "), "{line}");
    paths::wait_for_turn();
    let output = Command::new("sh")
        .args(["-c", &format!("timeout 60 {line}")])
        .current_dir(work.path())
        .env("TMPDIR", work.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let native = native(Job::new(heat(), &[&HEAT[..], &["heat.field"]].concat()).workers(3));
    assert_eq!(
        output.stdout,
        native.stdout,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The program ends in various ways; `understudy run` has its status, or that of a failure.
#[test]
fn the_status_is_that_of_the_program() {
    let program = paths::test_program("endings")
        .to_string_lossy()
        .into_owned();
    let ends = |how: &str, options: &[&str]| {
        let work = work();
        std::fs::write(work.path().join("once"), "").unwrap();
        let start = ["run", "-n", "3", "--interval", "0.05s"];
        let end: &[&str] = if options.contains(&"--once") {
            &["1", "once"]
        } else {
            &["1"]
        };
        let options: Vec<_> = options
            .iter()
            .copied()
            .filter(|option| *option != "--once")
            .collect();
        UnderstudyCommand::new(
            work.path(),
            &[&start, &options[..], &["--", program.as_str(), how], end].concat(),
        )
        .run()
    };
    ends("kill", &["--once"]).assert(0, &["1 failure, recovered from"]);
    ends("kill", &[]).assert(
        75,
        &[
            "has failed 10 times",
            "ended with status 75",
            "not recovered from",
        ],
    );
    ends("exit", &[]).assert(5, &["with status 5"]);
    if is_thorough() {
        ends("divide", &["--spares", "4"]).assert(65, &["SIGFPE"]);
        ends("MPI_Abort", &[]).assert(6, &["MPI_Abort"]);
    }
    let work = work();
    let heat = heat();
    let unprotected = [
        "run",
        "-n",
        "2",
        "--allow-unprotected",
        "--fault",
        "pretend no-personality",
    ];
    let program = ["--", &heat, "30", "30", "10"];
    let ran = UnderstudyCommand::new(work.path(), &[&unprotected[..], &program].concat()).run();
    ran.assert(0, &["runs unprotected", "was not protected"]);
    ends("kill", &["--fault", "pretend no-personality"]).assert(78, &["UNDERSTUDY_REQUIRE=1"]);
}

#[test]
fn a_program_without_mpi_is_reported() {
    let ran =
        UnderstudyCommand::new(work().path(), &["run", "-n", "2", "--", "echo", "here"]).run();
    ran.assert(0, &["was not protected", "has not called MPI_Init"]);
    assert_eq!(ran.stdout, b"here\nhere\nhere\n");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_signal_ends_the_job_too() {
    let work = work();
    let heat = heat();
    let arguments = [
        "run",
        "-n",
        "3",
        "--interval",
        "0.1s",
        "--",
        &heat,
        "300",
        "300",
        "3000000",
    ];
    let ran = UnderstudyCommand::new(work.path(), &arguments)
        .during({
            let mut is_sent = false;
            move |child| {
                // The program runs when its processes and the ledgers of all ranks exist.
                let ranks = processes::with_command("heat2d")
                    .into_iter()
                    .filter(|&pid| processes::descends(pid, child.id()))
                    .count();
                if ranks > 4 && !is_sent && has_ledgers() {
                    is_sent = processes::terminate(child.id());
                }
            }
        })
        .run();
    ran.assert(
        143,
        &["SIGTERM has ended the job; no checkpoint is on disk"],
    );
    assert_eq!(ran.left, Vec::<String>::new());
    let is_here = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path == work.path())
    };
    let stayed: Vec<u32> = processes::with_command("heat2d")
        .into_iter()
        .filter(is_here)
        .collect();
    assert_eq!(stayed, Vec::<u32>::new(), "ranks have stayed");
}

fn has_ledgers() -> bool {
    paths::shared_memory()
        .iter()
        .filter(|entry| entry.file_name().to_string_lossy().contains("@1-"))
        .count()
        >= 4
}

pub fn script(work: &Path, name: &str, text: &str) -> PathBuf {
    let path = work.join(name);
    paths::script(&path, text);
    path
}
