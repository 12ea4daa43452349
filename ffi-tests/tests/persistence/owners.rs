//! Two running jobs never share a directory of checkpoints.

use ffi_tests::command::UnderstudyCommand;
use ffi_tests::kill::checkpoints_on_disk;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, REFUSED, paths};
use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;

const ARGUMENTS: [&str; 3] = ["200", "200", "2000"];

fn heat() -> String {
    paths::example("heat2d").to_string_lossy().into_owned()
}

fn command_line(options: &[&str]) -> Vec<String> {
    let run = [
        "run",
        "-n",
        "2",
        "--spares",
        "0",
        "--interval",
        "0.1s",
        "--disk",
        "disk",
    ];
    let heat = heat();
    let program = ["--", &heat];
    let words = run.iter().chain(options).chain(&program).chain(&ARGUMENTS);
    words.map(|word| String::from(*word)).collect()
}

fn run(work: &Path, options: &[&str]) -> UnderstudyCommand {
    let line = command_line(options);
    let words: Vec<&str> = line.iter().map(String::as_str).collect();
    UnderstudyCommand::new(work, &words)
}

#[test]
fn a_second_job_is_refused_while_the_first_one_runs() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let refused: Rc<RefCell<Option<[Output; 2]>>> = Rc::default();
    let (found, directory) = (Rc::clone(&refused), work.path().to_owned());
    // The first job ends after the attempts to start a second one.
    let may_end = work.path().join("may-end");
    let until = format!("delay-end until={}", may_end.display());
    let first = run(work.path(), &["--fault", &until])
        .during(move |_| {
            if found.borrow().is_none()
                && checkpoints_on_disk(&directory.join("disk"), 2).len() >= 2
            {
                let second = |options: &[&str]| {
                    let mut command = Command::new(paths::product("understudy"));
                    let command = command.args(command_line(options)).current_dir(&directory);
                    command.output().expect("understudy can be executed")
                };
                found.replace(Some([second(&["--restart"]), second(&[])]));
                std::fs::File::create(&may_end).expect("the directory is writable");
            }
        })
        .run();
    let refused = refused
        .take()
        .expect("the first job had checkpoints on disk");
    for output in refused {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(REFUSED), "{words}");
        assert!(
            words.contains("owns the directory and may still run"),
            "{words}"
        );
        assert!(output.stdout.is_empty());
    }
    first.assert(0, &[]);
    let undisturbed = native(Job::new(heat(), &ARGUMENTS).workers(2));
    assert!(first.stdout == undisturbed.stdout, "{}", first.stderr);
    let left = std::fs::read_dir(work.path().join("disk"))
        .into_iter()
        .flatten()
        .count();
    assert_eq!(left, 0, "files are left");
}
