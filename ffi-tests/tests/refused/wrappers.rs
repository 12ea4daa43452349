//! MPI programs behind wrappers, such as env(1) and shells, which start the programs.

use ffi_tests::native_runs::native;
use ffi_tests::paths::{self, Launcher};
use ffi_tests::processes::MARK;
use ffi_tests::{Job, Kill, REFUSED, Requirement, Trigger, skip, variants};

/// Variables without which Open MPI's library does not start.
const NEEDED: [&str; 4] = ["HOME", "OPAL_PREFIX", "LD_LIBRARY_PATH", "PATH"];

/// Makes a job of a program in a cleared environment.
///
/// The mark by which the test finds the processes is kept.
fn cleared() -> Job {
    let value = |name: &&str| Some(format!("{name}={}", std::env::var(name).ok()?));
    let program = paths::test_program("chatter").display().to_string();
    let script = format!("exec env -i \"{MARK}=${MARK}\" \"$@\"");
    let mut words = vec!["-c".to_owned(), script, "sh".to_owned()];
    words.extend(NEEDED.iter().filter_map(value));
    words.extend([program, "30".to_owned(), "5000".to_owned()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Job::new("/bin/sh", &words).interval("7calls")
}

/// The program of [`cleared`] without the wrapper.
fn bare() -> Job {
    Job::new(paths::test_program("chatter"), &["30", "5000"])
}

#[test]
fn a_program_in_a_cleared_environment_is_the_rank() {
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let job = cleared().launched_by(launcher);
        let outcome = job.kill(Kill::at(1, Trigger::Lines(10))).run();
        outcome.assert_all_recovered(&native(bare()), &[1]);
    }
}

/// setsid(1) leads a process group, so it forks and exits while the program runs.
#[test]
fn a_program_in_the_background_of_its_wrapper_is_refused() {
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let program = paths::test_program("chatter").display().to_string();
        let job = Job::new("/usr/bin/setsid", &[&program, "30", "5000"]);
        let outcome = job.launched_by(launcher).run();
        outcome.assert_status(REFUSED);
        outcome.assert_line(&["runs in the background of /usr/bin/setsid"]);
        // After the exit of setsid, the parent of the program is the init process of the machine
        // or of a container.
        let is_true =
            |line: &&str| !line.contains("has started") || line.contains("started setsid");
        outcome.check(
            outcome.own_lines().iter().all(is_true),
            "a line names a process that the launcher has not started",
        );
        outcome.check(outcome.stdout.is_empty(), "the program has run");
        outcome.assert_nothing_left();
    }
}

/// The wrapper exits after the program has returned from MPI_Init.
#[test]
fn a_program_that_outlives_its_wrapper_ends_the_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let wrapper = directory.path().join("wrapper");
    paths::script(&wrapper, "#!/bin/sh\n\"$@\" &\nsleep 2\n");
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let job = Job::new(paths::test_program("chatter"), &["4000", "10000"]);
        let outcome = job.started_by(&wrapper).launched_by(launcher).run();
        outcome.assert_status(REFUSED);
        let cause = format!("runs in the background of {}", wrapper.display());
        outcome.assert_line(&[&cause]);
        outcome.check(!outcome.stdout.is_empty(), "the program has not run");
        outcome.assert_nothing_left();
    }
}

/// Arguments with which gdb prints nothing while the program prints.
///
/// Gdb's messages about the exit of a rank would be written in pieces among the lines of other
/// ranks.
const GDB: [&str; 10] = [
    "-batch",
    "-ex",
    "set logging file /dev/null",
    "-ex",
    "set logging redirect on",
    "-ex",
    "set logging enabled on",
    "-ex",
    "run",
    "--args",
];

/// Wrappers that wait for the program: path, arguments, and name in the line.
const WAITING: [(&str, &[&str], &str); 3] = [
    ("/usr/bin/setsid", &["--wait"], "setsid"),
    ("/usr/bin/timeout", &["100"], "timeout"),
    ("/usr/bin/gdb", &GDB, "gdb"),
];

/// Understudy names the wrapper in one line and recommends `exec`.
///
/// The wrapper outlives the program, so a failure of the program becomes one of the wrapper.
#[test]
fn a_wrapper_that_waits_for_the_program_is_named_at_the_start() {
    for (wrapper, arguments, name) in variants(WAITING, 2) {
        if !std::path::Path::new(wrapper).exists() {
            skip(Requirement::Tools, &format!("there is no {wrapper}"));
            continue;
        }
        for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
            let outcome = wrapped(wrapper, arguments).launched_by(launcher).run();
            outcome.assert_success();
            outcome.assert_single_line(&[&format!("has started {name},"), "exec"]);
            let printed = String::from_utf8_lossy(&outcome.stdout).into_owned();
            let of_program = |line: &&str| line.starts_with("rank ");
            let mut lines: Vec<&str> = printed.lines().filter(of_program).collect();
            lines.sort_unstable();
            let plain = native(bare());
            let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
            let mut expected: Vec<&str> = plain.lines().collect();
            expected.sort_unstable();
            outcome.check(lines == expected, "the output differs");
            outcome.assert_nothing_left();
        }
    }
}

/// Makes a job of the program of [`bare`] behind a wrapper.
fn wrapped(wrapper: &str, arguments: &[&str]) -> Job {
    let program = paths::test_program("chatter").display().to_string();
    let words = [arguments, &[&program, "30", "5000"]].concat();
    Job::new(wrapper, &words).interval("7calls")
}

const PID_NAMESPACE: [&str; 3] = ["--pid", "--fork", "--mount-proc"];

fn may_make_pid_namespaces() -> bool {
    let probe = std::process::Command::new("unshare")
        .args(PID_NAMESPACE)
        .arg("true")
        .status();
    let may = probe.is_ok_and(|status| status.success());
    if !may {
        skip(Requirement::Namespaces, "namespaces of processes need root");
    }
    may
}

/// A job with a PID namespace for each rank is refused, or runs unprotected.
///
/// Open MPI without understudy crashes or hangs in this case, unless shared memory is disabled.
#[test]
fn a_pid_namespace_of_each_rank_is_refused() {
    if !may_make_pid_namespaces() {
        return;
    }
    let words = ["PID namespace of its own", "start the launcher"];
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        for arguments in variants([&PID_NAMESPACE[..], &PID_NAMESPACE[..2]], 1) {
            let job = wrapped("/usr/bin/unshare", arguments).launched_by(launcher);
            job.run().assert_refused(&words);
        }
    }
    let arguments = [&["OMPI_MCA_btl=self,tcp", "unshare"], &PID_NAMESPACE[..]].concat();
    let job = wrapped("/usr/bin/env", &arguments).launched_by(Launcher::Mpirun);
    let outcome = job.run();
    outcome.assert_success();
    outcome.assert_single_line(&words);
    outcome.assert_single_line(&["unprotected"]);
    outcome.assert_same_lines(&native(bare().workers(5)));
}

/// The job must end: the accepted ranks would wait for the refused ranks for ever.
#[test]
fn a_job_of_which_some_ranks_are_refused_ends() {
    let program = paths::test_program("chatter").display().to_string();
    let script = format!("[ $OMPI_COMM_WORLD_RANK != 1 ] || ulimit -n 400; exec {program} 30 5000");
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let job = Job::new("/bin/sh", &["-c", &script]).launched_by(launcher);
        let outcome = job.run();
        let status = outcome.status.and_then(|status| status.code());
        outcome.check(status.is_some_and(|status| status != 0), "the job hangs");
        outcome.check(outcome.stdout.is_empty(), "the program has run");
        if launcher == Launcher::Mpirun {
            outcome.assert_single_line(&["cannot be protected", "other processes wait for it"]);
        }
        outcome.assert_nothing_left();
    }
}

/// The program needs the launcher's process manager, and the variables that the launcher has set.
#[test]
fn a_program_of_mpich_that_is_refused_behind_a_wrapper_runs_unprotected() {
    let Some(program) = paths::mpich_program("chatter") else {
        return skip(
            Requirement::Mpich,
            "there is no MPICH in .env/mpich (make setup)",
        );
    };
    let script = format!("ulimit -n 400; exec {} 40", program.display());
    let outcome = Job::new("/bin/sh", &["-c", &script])
        .workers(2)
        .of_mpich()
        .launched_by(Launcher::Mpirun)
        .run();
    outcome.assert_success();
    outcome.assert_single_line(&["open files is 400", "unprotected"]);
    let plain = Job::new(&program, &["40"]).workers(3).of_mpich();
    outcome.assert_same_lines(&native(plain));
    outcome.assert_nothing_left();
}

/// A program under valgrind, which simulates the processor, is refused.
///
/// Other wrappers around valgrind, whatever their exit status, change nothing.
#[test]
fn a_program_under_valgrind_is_refused() {
    if paths::on_path("valgrind").is_none() {
        return skip(Requirement::Tools, "there is no valgrind");
    }
    let program = paths::test_program("chatter").display().to_string();
    let script = format!("valgrind -q {program} 40; true");
    let jobs: [(&str, &[&str]); 3] = [
        ("/usr/bin/valgrind", &["-q", &program, "40"]),
        ("/usr/bin/env", &["valgrind", "-q", &program, "40"]),
        ("/bin/sh", &["-c", &script]),
    ];
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        for (wrapper, arguments) in variants(jobs, 1) {
            let job = Job::new(wrapper, arguments).workers(2);
            let job = job.launched_by(launcher).env("UNDERSTUDY_REQUIRE", "1");
            job.run()
                .assert_refused(&["runs under valgrind", "UNDERSTUDY_DISABLE=1"]);
        }
    }
}
