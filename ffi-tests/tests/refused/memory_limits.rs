//! Control groups with a memory limit that is too low for replicas.

use ffi_tests::{Requirement, paths, skip, variants};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Exit status of a job that cannot be recovered.
const LOST: i32 = 75;
/// Arguments of the program `growing`.
///
/// The values are rounds, pause in milliseconds, and MiB of a rank before and after it grows.
const GROWING: &str = "40 10 20 90";
/// Peak of the program's memory without understudy, with Open MPI (measured), in MiB.
const PEAK_MIB: u64 = 290;

/// A control group that is removed at the end.
struct Group(PathBuf);

impl Group {
    /// Creates a group with a limit in MiB; returns `None` without permission.
    fn new(limit_mib: u64) -> Option<Group> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("understudy-test-{}-{number}", std::process::id());
        let places = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        places.iter().find_map(|(root, limit)| {
            let group = Group(Path::new(root).join(&name));
            fs::create_dir(&group.0).ok()?;
            let bytes = (limit_mib << 20).to_string();
            // Without the file the group has no memory controller.
            let has_limit = group.0.join(limit).exists();
            (has_limit && fs::write(group.0.join(limit), bytes).is_ok()).then_some(group)
        })
    }

    /// Runs a command in the group.
    fn run(&self, command: &str) -> Output {
        let enter = format!("echo $$ > {}/cgroup.procs", self.0.display());
        run(&format!("{enter}; exec {command}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn run(command: &str) -> Output {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(work.path());
    shell.output().expect("there is a shell")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn growing() -> String {
    format!(
        "{} {GROWING}",
        paths::test_program("table/growing").display()
    )
}

/// Command that runs a program with three workers and a spare.
fn protected(options: &str, program: &str) -> String {
    let understudy = paths::product("understudy").display().to_string();
    let run = "run -n 3 --spares 1 --interval 50ms --no-daemon --progress none";
    format!("timeout 60 {understudy} {run} {options} -- {program}")
}

/// Runs the program in a group whose limit is `percent` % of the program's own peak.
///
/// Checks that the output is that of a run without a limit, and returns the messages.
fn run_within(percent: u64, options: &str) -> Option<String> {
    let group = Group::new(PEAK_MIB * percent / 100)?;
    let unlimited = run(&protected("--interval off", &growing()));
    assert!(unlimited.status.success(), "{}", errors(&unlimited));
    let limited = group.run(&protected(options, &growing()));
    let errors = errors(&limited);
    assert!(limited.status.success(), "{percent} %: {errors}");
    assert!(
        limited.stdout == unlimited.stdout,
        "{percent} %: other output; {errors}"
    );
    assert!(
        !errors.contains("[killed-for-memory]"),
        "{percent} %: {errors}"
    );
    Some(errors)
}

#[test]
fn a_process_killed_for_want_of_memory_ends_the_job_and_the_limit_is_named() {
    const LIMIT_MIB: u64 = 200;
    paths::wait_for_turn();
    let Some(group) = Group::new(LIMIT_MIB) else {
        return skip(
            Requirement::ControlGroups,
            "no control group with a memory limit can be made here",
        );
    };
    // The program exceeds the limit even without replicas.
    let program = paths::example("heat2d").display().to_string();
    let lost = group.run(&protected("", &format!("{program} 3000 3000 200")));
    let errors = errors(&lost);
    assert_eq!(lost.status.code(), Some(LOST), "{errors}");
    let limit = format!("is limited to {LIMIT_MIB} MiB");
    let is_cause = |line: &&str| line.contains(&limit) && line.contains("[killed-for-memory]");
    assert_eq!(errors.lines().filter(is_cause).count(), 1, "{errors}");
    assert!(!errors.contains("starts again"), "{errors}");

    let understudy = paths::product("understudy").display().to_string();
    let doctor = group.run(&format!("{understudy} doctor"));
    let found = String::from_utf8_lossy(&doctor.stdout);
    let limit = format!("limited to {LIMIT_MIB}.0 MiB");
    assert!(found.contains(&limit), "{found}");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_job_that_fits_alone_runs_to_its_end_beside_its_copies() {
    paths::wait_for_turn();
    for percent in variants([350, 150, 250], 1) {
        if run_within(percent, "").is_none() {
            return skip(
                Requirement::ControlGroups,
                "no control group with a memory limit can be made here",
            );
        }
    }
}

#[test]
fn a_checkpoint_that_does_not_fit_is_left_out_and_the_earlier_one_serves() {
    paths::wait_for_turn();
    // Worker 1 fails after it has grown.
    let Some(errors) = run_within(250, "--fault 'kill rank=1 at=call:100'") else {
        return skip(
            Requirement::ControlGroups,
            "no control group with a memory limit can be made here",
        );
    };
    assert!(
        errors.contains("MiB are left for them in control group"),
        "{errors}"
    );
    assert!(
        errors.contains("a failure returns it to checkpoint"),
        "{errors}"
    );
    assert!(errors.contains("worker 1 failed"), "{errors}");
}

#[test]
fn a_program_gets_the_memory_of_its_copies_before_the_kernel_kills_it() {
    paths::wait_for_turn();
    let Some(errors) = run_within(150, "") else {
        return skip(
            Requirement::ControlGroups,
            "no control group with a memory limit can be made here",
        );
    };
    let words = "[replicas-discarded]";
    assert!(
        errors.contains(words) && errors.contains("runs unprotected"),
        "{errors}"
    );
}

#[test]
fn a_job_that_must_be_protected_stops_where_a_checkpoint_does_not_fit() {
    paths::wait_for_turn();
    let Some(group) = Group::new(PEAK_MIB * 5 / 2) else {
        return skip(
            Requirement::ControlGroups,
            "no control group with a memory limit can be made here",
        );
    };
    let command = protected("", &growing());
    let stopped = group.run(&format!("env UNDERSTUDY_REQUIRE=1 {command}"));
    let errors = errors(&stopped);
    assert_eq!(stopped.status.code(), Some(ffi_tests::REFUSED), "{errors}");
    assert!(
        errors.contains("the job stops (UNDERSTUDY_REQUIRE=1)"),
        "{errors}"
    );
    assert!(errors.contains("MemoryMax="), "{errors}");
}
