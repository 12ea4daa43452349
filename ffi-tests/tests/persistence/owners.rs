//! Two running jobs never share a directory of checkpoints.

use ffi_tests::command::UnderstudyCommand;
use ffi_tests::kill::checkpoints_on_disk;
use ffi_tests::native_runs::native;
use ffi_tests::processes::{all, descends};
use ffi_tests::{Job, REFUSED, Requirement, paths, skip};
use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
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
            words.contains("owns the directory: its processes have locked"),
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

/// Sends a signal to a process and to all processes that it has started.
fn signal_all(root: u32, signal: &str) {
    let of_job = all().filter(|&pid| pid == root || descends(pid, root));
    let of_job: Vec<String> = of_job.map(|pid| pid.to_string()).collect();
    let status = Command::new("kill").arg(signal).args(of_job).status();
    assert!(status.expect("kill(1) is there").success());
}

/// Returns a command that sees another boot id of the kernel.
///
/// For a job there, processes outside are on another host, whose locks prove nothing.
fn on_another_host(work: &Path, line: &[String]) -> Command {
    let id = work.join("boot_id");
    fs::write(&id, "another\n").expect("the directory is writable");
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(id);
    command.arg(paths::product("understudy")).args(line);
    command.current_dir(work);
    command
}

/// Second job, on what looks like another host, while the first one is frozen.
struct Second {
    process: Child,
    may_end: PathBuf,
    errors: PathBuf,
}

impl Second {
    fn start(work: &Path) -> Second {
        let may_end = work.join("second-may-end");
        let until = format!("delay-end until={}", may_end.display());
        let line = command_line(&["--restart", "--fault", &until]);
        let [output, errors] = ["second-output", "second-errors"].map(|name| work.join(name));
        let process = on_another_host(work, &line)
            .stdin(Stdio::null())
            .stdout(File::create(output).expect("writable"))
            .stderr(File::create(&errors).expect("writable"))
            .spawn()
            .expect("unshare(1) is there");
        Second {
            process,
            may_end,
            errors,
        }
    }

    /// True if the job has written a checkpoint, or has failed.
    fn has_written(&mut self, disk: &Path) -> bool {
        let has_failed = self.process.try_wait().expect("a child").is_some();
        let names = fs::read_dir(disk).expect("readable").flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_of_second = |name: &String| name.contains("-0002-") && name.ends_with(".epoch");
        has_failed || names.filter(is_of_second).count() >= 2
    }
}

/// The frozen owner goes on while its successor runs.
#[test]
#[ignore = "a variant: make test-all"]
fn a_frozen_owner_is_replaced_and_ends_when_it_continues() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let probe = on_another_host(work.path(), &["--version".into()]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skip(Requirement::Namespaces, "mounts are not permitted");
    }
    let disk = work.path().join("disk");
    let second: Rc<RefCell<Option<Second>>> = Rc::default();
    let (started, directory) = (Rc::clone(&second), work.path().to_owned());
    let mut is_frozen = true;
    let never = directory.join("first-may-end");
    let until = format!("delay-end until={}", never.display());
    let first = run(work.path(), &["--fault", &until])
        .during(move |child| {
            let second = &mut *started.borrow_mut();
            if second.is_none() && checkpoints_on_disk(&disk, 2).len() >= 2 {
                signal_all(child.id(), "-STOP");
                *second = Some(Second::start(&directory));
            }
            if let Some(second) = second
                && is_frozen
                && second.has_written(&disk)
            {
                signal_all(child.id(), "-CONT");
                is_frozen = false;
            }
        })
        .run();
    let mut second = second
        .take()
        .expect("the first job had checkpoints on disk");
    first.assert(
        REFUSED,
        &["where this job has its checkpoints", "[directory-lost]"],
    );

    File::create(&second.may_end).expect("the directory is writable");
    let status = second.process.wait().expect("a child");
    let errors = fs::read_to_string(&second.errors).expect("readable");
    assert!(status.success(), "{status}\n{errors}");
    assert!(errors.contains("[directory-watched]"), "{errors}");
    let (_, place) = errors.split_once("after the first ").expect("a restart");
    let lines: usize = place
        .split(' ')
        .next()
        .and_then(|it| it.parse().ok())
        .expect("a number");
    let before = first
        .stdout
        .split_inclusive(|&byte| byte == b'\n')
        .take(lines);
    let mut joined = before.collect::<Vec<_>>().concat();
    joined.extend(fs::read(work.path().join("second-output")).expect("readable"));
    let undisturbed = native(Job::new(heat(), &ARGUMENTS).workers(2));
    assert!(joined == undisturbed.stdout, "{}\n{errors}", first.stderr);
    let left = fs::read_dir(work.path().join("disk"))
        .expect("readable")
        .count();
    assert_eq!(left, 0, "files are left");
}
