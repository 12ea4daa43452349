//! The `understudy` command, run as a user runs it.

use crate::paths;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Result of a command.
pub struct CommandResult {
    pub line: String,
    /// `None` if the command was killed at its time limit.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    /// Names of files and directories that the command left in its directory for temporary files.
    pub left: Vec<String>,
}

impl CommandResult {
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Fails unless the exit status is `code` and standard error contains all `words`.
    ///
    /// # Panics
    /// Panics if the exit status differs, or an element of `words` is missing.
    #[track_caller]
    pub fn assert(&self, code: i32, words: &[&str]) {
        let CommandResult { line, stderr, .. } = self;
        assert_eq!(self.code(), Some(code), "{line}\n{stderr}");
        for word in words {
            assert!(
                stderr.contains(word),
                "standard error of {line} lacks `{word}`:\n{stderr}"
            );
        }
    }
}

/// Action that is repeated while a command runs.
type RepeatedAction = Box<dyn FnMut(&Child)>;

/// An `understudy` command with its time limit and working directory.
pub struct UnderstudyCommand {
    command: Command,
    limit: Duration,
    root: tempfile::TempDir,
    during: Option<RepeatedAction>,
}

impl UnderstudyCommand {
    /// Prepares `understudy ARGUMENTS` in a directory.
    ///
    /// # Panics
    /// Panics if no temporary directory can be made.
    pub fn new(work: &Path, arguments: &[&str]) -> UnderstudyCommand {
        let root = tempfile::tempdir().expect("there is room for temporary files");
        let mut command = Command::new(paths::product("understudy"));
        command
            .args(arguments)
            .current_dir(work)
            .env_remove("LD_PRELOAD");
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("TMPDIR", root.path());
        UnderstudyCommand {
            command,
            limit: Duration::from_secs(120),
            root,
            during: None,
        }
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> UnderstudyCommand {
        self.command.env(name, value);
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> UnderstudyCommand {
        self.command.env_remove(name);
        self
    }

    /// Sets an action that is repeated every 10 ms while the command runs.
    #[must_use]
    pub fn during(mut self, act: impl FnMut(&Child) + 'static) -> UnderstudyCommand {
        self.during = Some(Box::new(act));
        self
    }

    /// Runs the command and waits until it exits.
    ///
    /// At its time limit, the command receives SIGTERM, and SIGKILL two seconds later.
    ///
    /// # Panics
    /// Panics if the command cannot be started.
    pub fn run(mut self) -> CommandResult {
        paths::wait_for_turn();
        let streams = ["stdout", "stderr"].map(|name| self.root.path().join(name));
        let [out, err] = streams
            .each_ref()
            .map(|path| std::fs::File::create(path).expect("writable"));
        self.command.stdin(Stdio::null()).stdout(out).stderr(err);
        let line = format!("{:?}", self.command);
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("{line} cannot be started: {error}"));
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("the command is a child") {
                break Some(status);
            }
            if began.elapsed() > self.limit {
                // SIGTERM to the command makes the launcher terminate the ranks.
                crate::processes::terminate(child.id());
                std::thread::sleep(Duration::from_secs(2));
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            if let Some(act) = &mut self.during {
                act(&child);
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let [stdout, stderr] = streams.map(|path| std::fs::read(path).unwrap_or_default());
        let names = std::fs::read_dir(self.root.path())
            .into_iter()
            .flatten()
            .flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        CommandResult {
            line,
            status,
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            left: names
                .filter(|name| name != "stdout" && name != "stderr")
                .collect(),
        }
    }
}

/// Returns the standard output of `understudy ARGUMENTS`.
///
/// The command can run while a job of the test runs.
///
/// # Panics
/// Panics if the command fails.
#[track_caller]
pub fn understudy(arguments: &[&str]) -> String {
    let output = Command::new(paths::product("understudy"))
        .args(arguments)
        .output()
        .expect("understudy can be executed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}
