//! Programs that cannot be protected: one clear line states the reason.
//!
//! The program then runs unprotected, or stops if the user has requested protection
//! (UNDERSTUDY_REQUIRE).

use ffi_tests::living_processes::living_and_lines;
use ffi_tests::native_runs::native;
use ffi_tests::programs::heat2d;
use ffi_tests::{
    Job, Kill, Launcher, Outcome, REFUSED, Requirement, Trigger, paths, processes, skip, variants,
};
use std::process::Command;

fn chatter() -> Job {
    Job::new(paths::test_program("chatter"), &["20"])
}

/// Fails unless a job with this change runs unprotected, or stops on request.
///
/// The request is UNDERSTUDY_REQUIRE=1. The elements of `ranks` are the numbers of workers and
/// spares.
fn assert_refused(change: impl Fn(Job) -> Job + Sync, ranks: (u32, u32), words: &[&str]) {
    // Without understudy there are no spares: the program sees all ranks.
    let all = ranks.0 + ranks.1;
    let undisturbed = native(chatter().workers(all));
    let outcomes = Job::run_each(&["0", "1"], |require| {
        change(chatter().workers(ranks.0).spares(ranks.1)).env("UNDERSTUDY_REQUIRE", require)
    });
    let [unprotected, stopped] = &outcomes[..] else {
        unreachable!("two rows")
    };
    unprotected.assert_single_line(words);
    unprotected.assert_single_line(&["unprotected"]);
    if paths::launcher() == Launcher::Ckptd {
        // `ckptd launch` stops the job: without understudy, each process would be a job of its own.
        assert_stopped(unprotected);
    } else {
        unprotected.assert_success();
        unprotected.assert_same_lines(&undisturbed);
        unprotected.assert_nothing_left();
    }
    assert_stopped(stopped);
    stopped.assert_single_line(words);
    stopped.assert_single_line(&["UNDERSTUDY_REQUIRE=1"]);
}

#[track_caller]
fn assert_stopped(outcome: &Outcome) {
    outcome.assert_failed();
    outcome.check(outcome.stdout.is_empty(), "the program has run");
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn more_spares_than_ranks_are_refused() {
    if paths::launcher() == Launcher::Ckptd {
        return skip(
            Requirement::Launcher,
            "ckptd launch gets the numbers of workers and spares, and starts both",
        );
    }
    let change = |job: Job| job.env("UNDERSTUDY_SPARES", "9");
    assert_refused(
        change,
        (4, 1),
        &["UNDERSTUDY_SPARES", "5 ranks", "9 spares", "mpirun -n"],
    );
}

/// The job runs, and one of its processes prints the line.
#[test]
fn a_variable_that_is_no_setting_is_named_once() {
    let outcome = heat2d().job().env("UNDERSTUDY_SPARE", "2").run();
    outcome.assert_success();
    let lines = outcome.own_lines();
    let named = lines.iter().filter(|line| {
        line.contains("UNDERSTUDY_SPARE is not a setting; did you mean UNDERSTUDY_SPARES?")
    });
    outcome.check(named.count() == 1, "not named once");
}

#[test]
fn a_setting_that_makes_no_sense_is_refused() {
    let settings: [(&str, &str, &[&str]); 3] = [
        ("UNDERSTUDY_SPARES", "two", &["`two`"]),
        ("UNDERSTUDY_INTERVAL", "soon", &["`soon`", "10s", "off"]),
        ("UNDERSTUDY_TRACKING", "magic", &["`magic`", "compare"]),
    ];
    for (name, value, words) in variants(settings, 1) {
        assert_refused(
            |job| job.env(name, value),
            (4, 1),
            &[&[name], words].concat(),
        );
    }
}

/// Limits under which nothing can be protected.
///
/// Each row has a shell command, and words of the refusal.
const LIMITS: [(&str, &[&str]); 3] = [
    (
        "ulimit -n 600",
        &["open files is 600", "RLIMIT_NOFILE", "ulimit -n"],
    ),
    (
        "ulimit -v 4194304",
        &[
            "address space is 4096 MiB",
            "RLIMIT_AS",
            "ulimit -v unlimited",
        ],
    ),
    (
        "ulimit -d 2097152",
        &["data is 2048 MiB", "RLIMIT_DATA", "ulimit -d unlimited"],
    ),
];

/// Mounts with which nothing can be protected.
///
/// The commands need a shell with its own mount namespace.
const MOUNTS: [(&str, &[&str]); 2] = [
    (
        "mount -t tmpfs -o ro tmpfs /dev/shm",
        &["/dev/shm", "Read-only", "mount a tmpfs"],
    ),
    (
        "mkdir dev; mount --bind /dev dev; mount -t tmpfs tmpfs /dev; \
         cp -a dev/null dev/zero dev/*random /dev; ln -s /proc/self/fd /dev/fd",
        &["/dev/shm", "No such file", "mount a tmpfs"],
    ),
];

/// Hides the directories of the user's sessions, which would be used instead.
const NO_SESSION: &str =
    "unset XDG_RUNTIME_DIR; [ ! -d /run/user ] || mount -t tmpfs tmpfs /run/user";

/// Runs a program by `understudy run OPTIONS` in a shell that has executed `prepare`.
///
/// Returns the exit status, standard output and standard error.
fn run_after(shell: &[&str], prepare: &str, options: &str) -> (Option<i32>, String, String) {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let run = format!(
        "{prepare}; exec {} run -n 2 --no-daemon {options} -- {} 20 20 10",
        paths::product("understudy").display(),
        paths::example("heat2d").display()
    );
    paths::wait_for_turn();
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["-c", &run]);
    command.current_dir(work.path());
    command
        .envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
    let output = command.output().expect("there is a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[track_caller]
fn assert_refused_after(shell: &[&str], prepare: &str, words: &[&str]) {
    let (status, _, errors) = run_after(shell, prepare, "");
    assert_eq!(status, Some(REFUSED), "{prepare}: {errors}");
    let lines: Vec<&str> = errors.lines().collect();
    let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
    assert!(lines.iter().any(has_all), "{prepare}: {errors}");
    assert!(errors.contains("the job stops"), "{prepare}: {errors}");
    let (status, output, errors) = run_after(shell, prepare, "--allow-unprotected");
    assert_eq!(status, Some(0), "{prepare}: {errors}");
    assert!(!output.is_empty() && errors.contains("runs unprotected"));
}

#[test]
fn a_limit_is_named_with_its_remedy() {
    for (limit, words) in LIMITS {
        assert_refused_after(&["sh"], limit, words);
    }
}

#[test]
fn a_missing_directory_in_memory_is_named_with_its_remedy() {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return skip(Requirement::Namespaces, "mounts need root");
    }
    for (mount, words) in MOUNTS {
        let prepare = format!("{NO_SESSION}; {mount}");
        assert_refused_after(&["unshare", "--mount", "sh"], &prepare, words);
    }
}

/// A wrapper mounts another /dev/shm, which hides the job's directory from the program.
#[test]
fn a_directory_in_memory_of_each_rank_is_refused() {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return skip(Requirement::Namespaces, "mounts need root");
    }
    let program = paths::example("heat2d").display().to_string();
    let command = format!("mount -t tmpfs tmpfs /dev/shm; exec {program} 20 20 10");
    let job = Job::new("/usr/bin/unshare", &["--mount", "sh", "-c", &command]);
    let outcome = job.env("UNDERSTUDY_REQUIRE", "1").run();
    outcome.assert_status(REFUSED);
    outcome.assert_single_line(&["/dev/shm", "wrapper", "--ipc=host"]);
}

#[test]
fn a_container_that_forbids_personality_is_refused() {
    let change = |job: Job| job.fault("pretend no-personality");
    assert_refused(change, (4, 1), &["personality", "seccomp", "setarch -R"]);
}

/// Programs of another MPI library; a library with the name is sufficient.
#[test]
fn a_program_of_another_mpi_library_is_not_protected() {
    assert_refused_library(
        "libmpi_ibm.so.3",
        &["[unknown-mpi-library]", "libmpi.so.12"],
    );
}

#[test]
fn a_program_of_cray_mpich_is_refused_by_name() {
    let sonames = ["libmpi_gnu_91.so.12", "libmpi_cray.so.12"];
    for soname in variants(sonames, 1) {
        assert_refused_library(soname, &["[cray-mpi-library]", soname, "Cray MPICH"]);
    }
}

fn assert_refused_library(soname: &str, words: &[&str]) {
    let directory = tempfile::tempdir().expect("there is room");
    let place = |name: &str| directory.path().join(name);
    let compile = |arguments: &[&std::ffi::OsStr], code: &str| {
        let source = place("code.c");
        std::fs::write(&source, code).expect("there is room");
        let compiler = Command::new("gcc")
            .arg("-o")
            .args(arguments)
            .arg(&source)
            .status();
        assert!(compiler.expect("gcc is there").success());
    };
    let library = place(soname);
    compile(
        &[
            library.as_ref(),
            "-shared".as_ref(),
            format!("-Wl,-soname,{soname}").as_ref(),
        ],
        "int PMPI_Init(int *c, char ***v) { return 0; }\n\
         int MPI_Init(int *c, char ***v) { return 0; }",
    );
    let program = place("program");
    let path = format!("-Wl,-rpath,{}", directory.path().display());
    compile(
        &[
            program.as_ref(),
            "-Wl,--no-as-needed".as_ref(),
            path.as_ref(),
            library.as_ref(),
        ],
        "#include <stdio.h>\nint MPI_Init(int *, char ***);\nint main(void) { MPI_Init(0, 0); \
         puts(\"over\"); }",
    );
    let job = |require| {
        Job::new(&program, &[])
            .workers(1)
            .spares(1)
            .env("UNDERSTUDY_REQUIRE", require)
    };
    if paths::launcher() != Launcher::Ckptd {
        let unprotected = job("0").run();
        unprotected.assert_success();
        unprotected.assert_single_line(words);
        unprotected.check(unprotected.stdout == b"over\nover\n", "another output");
    }
    let stopped = job("1").run();
    assert_stopped(&stopped);
    stopped.assert_single_line(words);
}

#[test]
fn ranks_that_share_memory_are_not_protected() {
    let sharing =
        |whose: &str| Job::new(paths::test_program("sharing"), &[whose]).interval("5calls");
    let common = sharing("common").run();
    common.assert_single_line(&["share memory", "memory.0", "unprotected"]);
    common.assert_success();
    common.assert_same_lines(&native(sharing("common")));

    let stopped = sharing("common").env("UNDERSTUDY_REQUIRE", "1").run();
    stopped.assert_failed();
    stopped.assert_single_line(&["share memory", "UNDERSTUDY_REQUIRE=1"]);

    let files = ["memory.0", "memory.1", "memory.2", "memory.3"];
    let own = sharing("own").kill(Kill::at(1, Trigger::Lines(30))).run();
    own.assert_recovered(&native(sharing("own")), &files, &[1]);
}

/// The timer's thread has ended, so a replacement could not have that thread.
#[test]
fn a_program_with_a_timer_for_a_thread_that_has_ended_is_not_protected() {
    let job = || Job::new(paths::test_program("alarm"), &["10", "5", "orphan"]).interval("5calls");
    let unprotected = job().run();
    unprotected.assert_single_line(&["SIGEV_THREAD_ID", "unprotected"]);
    unprotected.assert_success();
    unprotected.assert_same_lines(&native(job()));
}

/// The program continues unprotected after one line that names the descriptor.
#[test]
fn what_is_open_and_cannot_be_saved_is_named() {
    let kinds = [
        ("high", "descriptor 1000"),
        ("many", "from 600 on"),
        ("packets", "O_DIRECT"),
        ("elsewhere", "another name"),
    ];
    for (kind, word) in kinds {
        let job = || {
            Job::new(paths::test_program("openings"), &[kind, "80"])
                .workers(2)
                .interval("5calls")
        };
        let unprotected = job().run();
        unprotected.assert_single_line(&[word, "unprotected"]);
        unprotected.assert_success();
        let undisturbed = native(job());
        unprotected.assert_same_lines(&undisturbed);
        for name in undisturbed.files() {
            let is_same = unprotected.file(&name) == undisturbed.file(&name);
            unprotected.check(is_same, &format!("{name} differs"));
        }
    }
}

/// Flips a bit of the linker's checksum in a library's notes (NT_GNU_BUILD_ID of elf(5)).
fn rebuilt(library: &[u8]) -> Vec<u8> {
    const BUILD_ID: &[u8] = b"\x14\0\0\0\x03\0\0\0GNU\0";
    let note = library
        .windows(BUILD_ID.len())
        .position(|window| window == BUILD_ID);
    let mut other = library.to_vec();
    other[note.expect("a build id") + BUILD_ID.len()] ^= 1;
    other
}

#[test]
fn another_build_of_understudy_takes_no_part_in_a_job() {
    const NAMES: [&str; 4] = [
        "libunderstudy.so",
        "libunderstudy_runtime.so",
        "libunderstudy_shim.so",
        "ckptd",
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let place_of = |name: &str| directory.path().join(name);
    for name in NAMES {
        std::fs::copy(paths::product(name), place_of(name)).expect("room");
    }
    let [layer, runtime, ..] = NAMES.map(place_of);
    let job = heat2d()
        .job()
        .spares(0)
        .layer_at(layer)
        .watch(move |first| {
            let (living, printed) = living_and_lines(first, "heat2d");
            if printed < 8 {
                return false;
            }
            // Replaces the library by a renamed file, as an installation does.
            let new = runtime.with_extension("new");
            let library = std::fs::read(&runtime).expect("a library");
            std::fs::write(&new, rebuilt(&library)).expect("room");
            std::fs::rename(&new, &runtime).expect("the right to do it");
            assert!(
                living.values().nth(1).copied().is_some_and(processes::kill),
                "no process was alive"
            );
            true
        });
    let outcome = job.run();
    outcome.assert_failed();
    outcome.assert_single_line(&[
        "[replacement-differs]",
        "another build of understudy was installed",
    ]);
    outcome.assert_nothing_left();
}
