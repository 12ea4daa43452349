//! A job that runs in a directory of its own, with and without understudy.

use crate::doctor;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time after which a job counts as hanging.
pub const JOB_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Name of the standard output of a job, beside the files of its workers.
pub const OUTPUT: &str = "output";
/// Name of the standard error of a job.
const MESSAGES: &str = "messages";

/// A job that runs.
pub struct RunningJob {
    child: Child,
    directory: PathBuf,
    pub began: Instant,
}

impl RunningJob {
    /// Starts a job, which writes its files and its output into a directory.
    ///
    /// # Errors
    /// Errors of files and of the start of a process.
    pub fn start(mut command: Command, directory: &Path) -> io::Result<Self> {
        command
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(File::create(directory.join(OUTPUT))?)
            .stderr(File::create(directory.join(MESSAGES))?);
        Ok(Self {
            child: command.spawn()?,
            directory: directory.to_owned(),
            began: Instant::now(),
        })
    }

    /// Waits until `is_done` is true, the job has ended, or its time is over.
    ///
    /// # Errors
    /// Errors of waitpid(2).
    pub fn wait_until(
        &mut self,
        mut is_done: impl FnMut() -> bool,
    ) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if is_done() || self.began.elapsed() > JOB_TIMEOUT {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits for the end of the job.
    ///
    /// A job that does not end in time is ended, and has no status.
    ///
    /// # Errors
    /// Errors of waitpid(2) and kill(2).
    pub fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.wait_until(|| false)?;
        if status.is_none() {
            doctor::end(&mut self.child)?;
        }
        Ok(status)
    }

    /// Returns the last message of understudy, or else the last line of standard error.
    pub fn last_message(&self) -> String {
        let text = std::fs::read(self.directory.join(MESSAGES)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let has_words = |line: &&str| line.chars().any(char::is_alphanumeric);
        let lines: Vec<&str> = text.lines().filter(has_words).collect();
        let own = lines.iter().rfind(|line| line.starts_with("understudy"));
        let last = own.or(lines.last()).copied();
        last.unwrap_or("without a message").trim().to_owned()
    }
}
