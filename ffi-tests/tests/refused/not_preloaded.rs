//! Programs into which the loader preloads nothing, behind a wrapper that preloads understudy.

use ffi_tests::paths::{self, Launcher};
use ffi_tests::{Job, is_thorough, users, variants};

#[test]
fn a_program_that_executes_itself_past_libc_is_refused() {
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let program = paths::test_program("executes_itself").display().to_string();
        let script = format!("{program} || exit $?");
        for words in [&[&*program][..], &["/bin/sh", "-c", &script]] {
            let job = Job::new(words[0], &words[1..]).workers(2);
            let outcome = job.launched_by(launcher).run();
            outcome.assert_refused(&["lost the environment of its rank", "execve"]);
        }
    }
}

/// A program with another user's or group's rights is refused.
///
/// The test runs as an ordinary user, since such files give root no other rights.
#[test]
fn a_program_that_runs_as_another_user_is_refused() {
    let programs = match is_thorough() {
        true => "other_user other_group",
        false => "other_user",
    };
    let script = r#"
        cp "$programs/chatter" other_user; chmod 4755 other_user
        cp "$programs/chatter" other_group; chmod 2755 other_group
        limited() { $alice timeout -s KILL 60 "$@" > out 2> errors; echo $? $(wc -c < out) \
            $(grep -c 'runs as another user or group .*; the job stops' errors); }
        export UNDERSTUDY_SPARES=1 library="${layer%/*}/libunderstudy.so"
        for program in PROGRAMS; do
            limited "$layer" run -n 2 --no-daemon -- env ./$program 4
            limited "$layer" run -n 2 --no-daemon -- sh -c "./$program 4; true"
            limited mpirun --oversubscribe -n 3 -x LD_PRELOAD="$library" -x UNDERSTUDY_SPARES env ./$program 4
        done
        limited "$layer" run -n 2 --no-daemon -- ./other_user 4
        grep -c 'it runs with other rights than yours' errors
    "#;
    let Some(output) = users::run(&script.replace("PROGRAMS", programs)) else {
        return;
    };
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut expected = vec!["78 0 1"; 3 * programs.split(' ').count()];
    expected.extend(["126 0 0", "1"]);
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

/// The program gives no further rights, but the kernel randomises its addresses again.
#[test]
fn a_set_user_id_program_of_the_user_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    // A temporary directory may be mounted with nosuid.
    let build = paths::workspace().join("build");
    let directory = tempfile::tempdir_in(build).expect("there is room");
    let program = directory.path().join("chatter");
    std::fs::copy(paths::test_program("chatter"), &program).expect("there is room");
    let mode = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(&program, mode).expect("the copy is this user's");
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let job = Job::new(&program, &["40"]).workers(2);
        let job = job.launched_by(launcher).env("UNDERSTUDY_REQUIRE", "1");
        let words = ["set-user-id or set-group-id", "chmod u-s,g-s"];
        job.run().assert_refused(&words);
    }
}

/// Compiles a program that prints a line if it is not refused.
fn compiled(name: &str, directory: &tempfile::TempDir, options: &[&str]) -> String {
    let source = directory.path().join("source.c");
    let code = "#include <stdio.h>\n#include <stdlib.h>\n\
                int main(void) { puts(getenv(\"PMI_RANK\") ? \"rank\" : \"none\"); }";
    std::fs::write(&source, code).expect("there is room");
    let program = directory.path().join(name);
    let mut compiler = std::process::Command::new("gcc");
    compiler.args(options).arg("-o").arg(&program).arg(source);
    assert!(compiler.status().expect("gcc is there").success());
    program.display().to_string()
}

/// The loader of musl, which musl-gcc names in its programs, need not be installed.
#[test]
fn a_program_of_musl_and_a_static_one_are_refused() {
    let directory = tempfile::tempdir().expect("there is room");
    let musl = ["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"];
    let cases = [
        (compiled("musl", &directory, &musl), "built for musl"),
        (
            compiled("static", &directory, &["-static"]),
            "linked statically with its MPI library",
        ),
    ];
    for (program, words) in cases {
        for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
            let job = Job::new("/usr/bin/env", &[&program]).workers(2);
            let job = job.launched_by(launcher).env("UNDERSTUDY_REQUIRE", "1");
            job.run().assert_refused(&[words]);
        }
    }
}
