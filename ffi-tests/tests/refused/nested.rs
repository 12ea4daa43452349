//! Launchers in place of the program, one in each rank.

use ffi_tests::native_runs::native;
use ffi_tests::paths::{self, Launcher};
use ffi_tests::{Job, variants};
use std::path::Path;

fn program() -> String {
    paths::test_program("chatter").display().to_string()
}

/// Makes a directory with a program of each launcher's name, which does nothing.
fn launchers() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    for name in [
        "mpirun",
        "mpirun.openmpi",
        "mpiexec",
        "mpiexec.hydra",
        "orterun",
        "prterun",
        "srun",
    ] {
        std::fs::copy("/bin/true", directory.path().join(name)).expect("writable");
    }
    directory
}

fn job(words: &[&str]) -> Job {
    let wrapper = paths::on_path(words[0]).expect("an ordinary program");
    Job::new(wrapper, &words[1..]).workers(2)
}

#[test]
fn a_launcher_behind_a_wrapper_is_refused() {
    let directory = launchers();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let [mpirun, hydra] = ["mpirun", "mpiexec.hydra"].map(path);
    let program = program();
    let line = format!("{mpirun} -n 2 {program} 4");
    let script = path("script");
    paths::script(Path::new(&script), &format!("#!/bin/sh\nexec {line}\n"));
    std::os::unix::fs::symlink(&mpirun, path("start")).expect("a new name");
    let cases: [(&[&str], &str); 12] = [
        (&["env", &path("start"), "-n", "2", &program], "/start"),
        (&["env", &mpirun, "-n", "2", &program], "/mpirun"),
        (&["env", &hydra, "-n", "2", &program], "/mpiexec.hydra"),
        (&["nice", &path("mpiexec"), &program], "/mpiexec"),
        (&["timeout", "100", &path("srun"), &program], "/srun"),
        (&["sh", "-c", &line], "/mpirun"),
        (&["sh", "-c", &format!("{line}; true")], "/mpirun"),
        (&["sh", "-c", &format!("exec {line}")], "/mpirun"),
        (&["sh", &script], "/mpirun"),
        (&["env", &path("orterun"), &program], "/orterun"),
        (&["env", &path("prterun"), &program], "/prterun"),
        (
            &["env", &path("mpirun.openmpi"), &program],
            "/mpirun.openmpi",
        ),
    ];
    for (words, launcher) in variants(cases, 4) {
        let outcome = job(words).launched_by(Launcher::Ckptd).run();
        outcome.assert_refused(&[&format!("{launcher} is a launcher")]);
    }
    let required = job(cases[1].0).env("UNDERSTUDY_REQUIRE", "1");
    let outcome = required.launched_by(Launcher::Mpirun).run();
    outcome.assert_refused(&["/mpirun is a launcher"]);
}

/// `understudy run` within a job of `understudy run`.
#[test]
fn a_launcher_of_ours_behind_a_wrapper_is_refused() {
    let own = paths::product("understudy").display().to_string();
    let words = ["env", &own, "run", "-n", "2", "--", &program()];
    let outcome = job(&words).launched_by(Launcher::Ckptd).run();
    outcome.assert_refused(&["/understudy is a launcher"]);
}

/// A script may name a launcher and query its version.
#[test]
fn a_script_that_only_mentions_a_launcher_runs() {
    let directory = launchers();
    let mpirun = directory.path().join("mpirun").display().to_string();
    let script = directory.path().join("script");
    let text = format!(
        "#!/bin/sh\n# {mpirun} -n 2 a.out\n{mpirun} --version > version\n\
         if [ a = b ]; then {mpirun} -n 2 a.out; fi\nexec {} 20\n",
        program()
    );
    paths::script(&script, &text);
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let outcome = Job::new(&script, &[]).launched_by(launcher).run();
        outcome.assert_success();
        outcome.assert_same_lines(&native(Job::new(program(), &["20"])));
        let warns = outcome
            .own_lines()
            .iter()
            .any(|line| line.contains("launcher"));
        outcome.check(!warns, "a line names the launcher");
    }
}

/// The default is one spare, which the user may not expect.
#[test]
fn the_default_number_of_spares_is_reported() {
    paths::wait_for_turn();
    let mut mpirun = std::process::Command::new(paths::mpirun());
    let preload = format!("LD_PRELOAD={}", paths::preload_library().display());
    mpirun.args([
        "--oversubscribe",
        "-n",
        "2",
        "-x",
        &preload,
        &program(),
        "20",
    ]);
    mpirun
        .env_remove("UNDERSTUDY_SPARES")
        .envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
    let output = mpirun.output().expect("mpirun is there");
    let [printed, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{errors}");
    assert_eq!(printed.matches("rank 0 of 1 ").count(), 20, "{printed}");
    for words in [
        "1 of the 2 processes is a spare",
        "UNDERSTUDY_SPARES is not set",
    ] {
        assert_eq!(errors.matches(words).count(), 1, "{errors}");
    }
}
