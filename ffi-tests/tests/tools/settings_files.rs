//! Settings from a file of the user.

use ffi_tests::command::{CommandResult, UnderstudyCommand};
use ffi_tests::kill::fault_at_commit;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, paths};
use tempfile::TempDir;

/// Makes a directory for files of the user's programs, with this settings file.
fn home_with(settings: &str) -> TempDir {
    let home = tempfile::tempdir().expect("there is room for temporary files");
    std::fs::write(home.path().join("understudy.conf"), settings).expect("writable");
    home
}

/// Lets a job of `mpirun` read the settings file in a directory.
fn reads(job: Job, home: &TempDir) -> Job {
    job.env("XDG_CONFIG_HOME", &home.path().to_string_lossy())
        .env("UNDERSTUDY_FILES_READ", "")
}

/// Runs an `understudy` command that reads the settings file in a directory.
fn command(home: &TempDir, words: &[&str]) -> CommandResult {
    UnderstudyCommand::new(home.path(), words)
        .env("XDG_CONFIG_HOME", &home.path().to_string_lossy())
        .env("UNDERSTUDY_FILES_READ", "")
        .run()
}

fn heat() -> Job {
    Job::new(paths::example("heat2d"), &["60", "60", "400"]).workers(2)
}

/// The file kills a worker.
#[test]
fn a_job_of_mpirun_reads_the_file() {
    let fault = fault_at_commit(1, 3);
    let home = home_with(&format!("# mine\nfault = {fault}\n"));
    let outcome = reads(heat().interval("40calls"), &home).run();
    outcome.assert_success();
    outcome.assert_taken_over(&[1]);
    outcome.check(outcome.stdout == native(heat()).stdout, "equal output");
}

#[test]
fn a_wrong_line_refuses_the_job() {
    let home = home_with("spares = many\n");
    let job = reads(heat(), &home).env("UNDERSTUDY_REQUIRE", "1");
    let place = home.path().join("understudy.conf:1: spares: ");
    job.run()
        .assert_refused(&[&place.to_string_lossy(), "[bad-settings-file]"]);
    command(&home, &["run", "-n", "2", "--", "true"]).assert(2, &[&place.to_string_lossy()]);
}

/// The values are valid by themselves.
#[test]
fn a_setting_that_does_not_fit_the_job_names_its_line() {
    let home = home_with("# mine\ncopies = 2\n");
    let place = home.path().join("understudy.conf:2 sets UNDERSTUDY_COPIES");
    let words: [&str; 1] = [&place.to_string_lossy()];
    let job = reads(heat(), &home).env("UNDERSTUDY_REQUIRE", "1");
    job.run().assert_refused(&words);
    command(&home, &["run", "-n", "2", "--", "true"]).assert(2, &words);
}

#[test]
fn doctor_lists_the_settings_of_the_file() {
    let home = home_with("interval = 40calls\nspares = 2\n");
    let ran = command(&home, &["doctor"]);
    let found = String::from_utf8_lossy(&ran.stdout);
    let line = format!(
        "UNDERSTUDY_SPARES=2 ({}:2)",
        home.path().join("understudy.conf").display()
    );
    assert!(found.contains(&line), "{found}");
}
