//! Programs that `understudy run` refuses, with a clear message.

use crate::launchers::run::{HEAT, KILL, assert_undisturbed, heat, script, work};
use ffi_tests::command::UnderstudyCommand;
use ffi_tests::{Requirement, skip};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_shell_script_must_give_way_to_the_program() {
    let work = work();
    let line = format!("{} {} heat.field", heat(), HEAT.join(" "));
    script(work.path(), "waits.sh", &format!("#!/bin/sh\n{line}\n"));
    script(
        work.path(),
        "execs.sh",
        &format!("#!/bin/sh\n[ -n \"$HOME\" ] && exec {line}\n"),
    );
    let run = |name: &str| {
        let start = [
            "run",
            "-n",
            "3",
            "--spares",
            "2",
            "--interval",
            "20ms",
            "--fault",
            KILL,
            "--",
        ];
        UnderstudyCommand::new(work.path(), &[&start[..], &[name]].concat()).run()
    };
    run("./waits.sh").assert(125, &["Write `exec` in front of the MPI program"]);
    let ran = run("./execs.sh");
    ran.assert(0, &["worker 1 failed", "worker 0 failed"]);
    assert_undisturbed(&ran, work.path());
}

/// The dynamic loader preloads nothing into set-user-ID and set-group-ID programs.
#[test]
fn a_program_with_other_rights_is_refused() {
    let work = work();
    let copy = work.path().join("copy");
    std::fs::copy(heat(), &copy).unwrap();
    let run = |mode: u32| {
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(mode)).unwrap();
        UnderstudyCommand::new(
            work.path(),
            &["run", "--dry-run", "--no-daemon", "-n", "3", "--", "./copy"],
        )
        .run()
    };
    run(0o755).assert(0, &[]);
    if std::os::unix::fs::chown(&copy, Some(65534), Some(65534)).is_err() {
        skip(
            Requirement::Namespaces,
            "only root can have a program of another user",
        );
        return;
    }
    for mode in [0o4755, 0o2755] {
        run(mode).assert(126, &["set-user-id", "cp gives one"]);
    }
    run(0o755).assert(0, &[]);
}

#[test]
fn a_program_that_cannot_be_run_is_reported_in_one_line() {
    let work = work();
    let (heat, solver) = (heat(), ["--", "./solver"]);
    script(
        work.path(),
        "old",
        "#!/bin/sh\necho 'mpirun (Open MPI) 4.0.7'\n",
    );
    script(
        work.path(),
        "other",
        "#!/bin/sh\necho 'HYDRA build details:'\n",
    );
    std::fs::write(work.path().join("data"), "").unwrap();
    script(work.path(), "broken", "MZ");
    let program = ["--", heat.as_str()];
    let cases: &[(i32, &[&str], &[&str], &str)] = &[
        (127, &[], &solver, "there is no such program"),
        (126, &[], &["--", "./data"], "chmod +x"),
        (126, &[], &["--", "/"], "directory"),
        (
            126,
            &[],
            &["--", "./broken"],
            "neither a 64-bit program nor a script",
        ),
        (
            125,
            &["--host", "localhost:2"],
            &program,
            "need 3 slots, and --host localhost:2 has 2",
        ),
        (
            2,
            &["--host", "a:x"],
            &program,
            "--host: `a:x` is not a host with a number",
        ),
        (2, &["--disk", "/proc/epochs"], &program, "--disk: /proc: "),
        (
            125,
            &["--spares", "200000000"],
            &program,
            "are more than this node can have",
        ),
        // The command line has no `--` before the program.
        (
            127,
            &[],
            &["./solver", "-n", "3"],
            "./solver: there is no such program",
        ),
        (
            125,
            &["--mpirun", "nompirun"],
            &program,
            "no nompirun on the PATH",
        ),
        (
            125,
            &["--mpirun", "./old --bind-to core"],
            &program,
            "4.0.7 is too old",
        ),
        (125, &["--mpirun", "./other"], &program, "HYDRA"),
        (125, &["--mpirun", "'"], &program, "--mpirun"),
        (
            125,
            &["--library", "./nothing.so"],
            &program,
            "no such library",
        ),
        (
            125,
            &["--library", "./data"],
            &program,
            "libunderstudy_shim.so is not beside",
        ),
        (
            2,
            &["--interval", "100y"],
            &program,
            "--interval: `100y` is longer than any job",
        ),
        (2, &["--copies", "3"], &program, "--copies: `3` is none of"),
        (
            2,
            &["--copies", "2"],
            &program,
            "--copies 2 needs at least 3 workers",
        ),
        (2, &["--restart"], &program, "--restart needs the directory"),
        (
            2,
            &["--init-end", "MPI_Nothing#3"],
            &program,
            "`MPI_Nothing` is not an MPI procedure",
        ),
        (
            2,
            &["--domain", "nofile"],
            &program,
            "--domain: nofile: No such file",
        ),
        (
            2,
            &["--fault", "kill rank=1 at=lunch"],
            &program,
            "--fault: `at=lunch` is none of",
        ),
        (
            2,
            &["--hostfile", "nofile"],
            &program,
            "--hostfile: nofile: No such file",
        ),
        (
            2,
            &[],
            &["--", &heat, ":", "-n", "2", &heat],
            "`:` begins another program",
        ),
        (
            125,
            &["--events", "/proc/events"],
            &program,
            "can be written to",
        ),
    ];
    for (status, options, program, words) in cases {
        let ran = UnderstudyCommand::new(
            work.path(),
            &[&["run", "-n", "2"], *options, program].concat(),
        )
        .run();
        ran.assert(*status, &[words]);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{}", ran.line);
    }
    let ran = UnderstudyCommand::new(
        work.path(),
        &["run", "-n", "2", "--launcher", "mpirun", "--", &heat],
    )
    .env("PATH", "/nowhere")
    .run();
    ran.assert(125, &["no mpirun on the PATH"]);
    let ran = UnderstudyCommand::new(work.path(), &["run", "-n", "2", "--", &heat])
        .env("UNDERSTUDY_SPARE", "2")
        .run();
    ran.assert(
        2,
        &["UNDERSTUDY_SPARE is not a setting; did you mean UNDERSTUDY_SPARES?"],
    );
}
