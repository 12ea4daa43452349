//! Result of a job, and assertions on it.

use crate::job_directory::JobDirectory;
use crate::{REFUSED, paths};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use understudy_formats::events::{EndReason, EventReader, Kind, ProcessNumber, Record, file_name};

/// A rank that was killed.
#[derive(Clone, Copy, Debug)]
pub struct Killed {
    pub rank: u32,
    pub pid: u32,
    /// Time since the job's start.
    pub at: Duration,
    /// True if the process still existed.
    pub hit: bool,
}

/// Result of a job.
pub struct Outcome {
    pub(crate) root: Option<JobDirectory>,
    /// True if an assertion on the outcome has failed.
    failed: AtomicBool,
    pub line: String,
    /// Exit status of the launcher; `None` if the job was killed at its time limit.
    pub status: Option<ExitStatus>,
    pub wall: Duration,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub killed: Vec<Killed>,
    /// Processes and files of the job that existed after its end.
    pub left_behind: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(
        root: JobDirectory,
        line: String,
        status: Option<ExitStatus>,
        wall: Duration,
        killed: Vec<Killed>,
        left_behind: Vec<String>,
    ) -> Outcome {
        let read = |name| std::fs::read(root.path().join(name)).unwrap_or_default();
        let (stdout, stderr) = (
            read("stdout"),
            String::from_utf8_lossy(&read("stderr")).into_owned(),
        );
        Outcome {
            root: Some(root),
            failed: AtomicBool::new(false),
            line,
            status,
            wall,
            stdout,
            stderr,
            killed,
            left_behind,
        }
    }

    /// Directory of the checkpoints on disk.
    pub fn disk(&self) -> PathBuf {
        self.path(paths::DISK)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root
            .as_ref()
            .map_or_else(PathBuf::new, |root| root.path().join(name))
    }

    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Content of a file in the working directory; `None` if there is no such file.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.work().join(name)).ok()
    }

    /// Sorted paths of all files below the working directory, relative to that directory.
    pub fn files(&self) -> Vec<String> {
        let top = self.work();
        let mut names = Vec::new();
        let mut directories = vec![top.clone()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    directories.push(path.clone());
                } else if let Ok(name) = path.strip_prefix(&top) {
                    names.push(name.to_string_lossy().into_owned());
                }
            }
        }
        names.sort_unstable();
        names
    }

    /// Names of leftovers in the job's directory, which is also its TMPDIR on one host.
    ///
    /// Output, events, the working directory and checkpoints on disk do not count.
    pub fn temporary_files(&self) -> Vec<String> {
        let expected = ["work", "events", "stdout", "stderr", paths::DISK];
        let names = std::fs::read_dir(self.path(""))
            .into_iter()
            .flatten()
            .flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| !expected.contains(&name.as_str()))
            .collect()
    }

    /// Directory of the event files.
    pub fn event_directory(&self) -> PathBuf {
        self.path("events")
    }

    /// Event records of a rank of the launcher's world.
    pub fn events(&self, rank: u32) -> Vec<Record> {
        let path = self.event_directory().join(file_name(ProcessNumber(rank)));
        EventReader::open(&path).map_or_else(|_| Vec::new(), |reader| reader.flatten().collect())
    }

    /// Ranks of the launcher's world that have an event file.
    pub fn event_ranks(&self) -> Vec<u32> {
        let names = std::fs::read_dir(self.event_directory())
            .into_iter()
            .flatten()
            .flatten();
        let mut ranks: Vec<u32> = names
            .filter_map(|entry| {
                understudy_formats::events::rank_of_file_name(entry.file_name().to_str()?)
            })
            .map(|rank| rank.0)
            .collect();
        ranks.sort_unstable();
        ranks
    }

    /// Workers that were replaced, in order of the recoveries.
    ///
    /// Workers that were replaced in one recovery are in ascending order.
    pub fn takeovers(&self) -> Vec<u32> {
        let records = self
            .event_ranks()
            .into_iter()
            .flat_map(|rank| self.events(rank));
        let mut found: Vec<(u32, u32)> = records
            .filter_map(|record| match record.kind {
                Kind::Takeover {
                    recovery,
                    as_worker,
                    ..
                } => Some((recovery, as_worker.0)),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, worker)| worker).collect()
    }

    /// Number of recoveries from which the program has resumed.
    pub fn recoveries(&self) -> usize {
        let records = self
            .event_ranks()
            .into_iter()
            .flat_map(|rank| self.events(rank));
        let found: std::collections::BTreeSet<u32> = records
            .filter_map(|record| match record.kind {
                Kind::Resume { recovery, .. } => Some(recovery),
                _ => None,
            })
            .collect();
        found.len()
    }

    /// True if this rank had finalized, so that its kill came too late to matter.
    pub fn had_finalized(&self, rank: u32) -> bool {
        let is_end = |kind: &Kind| {
            matches!(
                kind,
                Kind::End {
                    how: EndReason::Finalized
                }
            )
        };
        self.events(rank).iter().any(|record| is_end(&record.kind))
    }

    /// Ranks that killed themselves at a fault point.
    pub fn faults(&self) -> Vec<u32> {
        let died = |rank: &u32| {
            self.events(*rank)
                .iter()
                .any(|record| matches!(record.kind, Kind::Kill { .. }))
        };
        self.event_ranks().into_iter().filter(died).collect()
    }

    /// Longest time from a failure until a rank resumed the program, over all recoveries.
    pub fn slowest_recovery(&self) -> Option<Duration> {
        let records = self
            .event_ranks()
            .into_iter()
            .flat_map(|rank| self.events(rank));
        let times = records.filter_map(|record| match record.kind {
            Kind::Resume { total_ns, .. } => Some(Duration::from_nanos(total_ns)),
            _ => None,
        });
        times.max()
    }

    /// The last checkpoint that a rank has committed; zero if the rank has committed none.
    pub fn last_epoch(&self, rank: u32) -> u64 {
        let epochs = self
            .events(rank)
            .into_iter()
            .filter_map(|record| match record.kind {
                Kind::Commit { epoch, .. } => Some(epoch.0),
                _ => None,
            });
        epochs.max().unwrap_or(0)
    }

    /// Lines of understudy on standard error.
    pub fn own_lines(&self) -> Vec<&str> {
        // Open MPI's message about an abort ends with a zero byte.
        self.stderr
            .lines()
            .map(|line| line.trim_start_matches('\0'))
            .filter(|line| line.starts_with("understudy"))
            .collect()
    }

    /// Describes the job for the message of a failed test.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}", self.line);
        let _ = writeln!(text, "status {:?} after {:?}", self.status, self.wall);
        for killed in &self.killed {
            let _ = writeln!(text, "{killed:?}");
        }
        if !self.left_behind.is_empty() {
            let _ = writeln!(text, "left behind: {:?}", self.left_behind);
        }
        let tail = |text: &str| {
            text.lines()
                .rev()
                .take(12)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("\n  ")
        };
        let _ = writeln!(text, "stderr:\n  {}", tail(&self.stderr));
        let _ = writeln!(
            text,
            "stdout:\n  {}",
            tail(&String::from_utf8_lossy(&self.stdout))
        );
        text
    }

    /// Fails with a description if `ok` is false.
    #[track_caller]
    pub fn check(&self, ok: bool, what: &str) {
        if !ok {
            self.failed.store(true, Ordering::Relaxed);
            panic!("{what}\n{}", self.describe());
        }
    }

    /// True if a worker was killed after all had reached MPI_Finalize.
    ///
    /// Effects of the program after MPI_Finalize may be missing then.
    pub fn has_died_at_the_end(&self) -> bool {
        let status = self.status.and_then(|status| status.code());
        let is_report = |line: &&str| line.contains("killed by signal 9 in or after MPI_Finalize");
        status == Some(128 + 9) && self.own_lines().iter().any(is_report)
    }

    /// Fails unless a worker was killed in or after MPI_Finalize, and a line reports it.
    #[track_caller]
    pub fn assert_died_at_the_end(&self) {
        self.check(
            self.has_died_at_the_end(),
            "the status is not 137, or no line reports a worker killed in or after MPI_Finalize",
        );
    }

    /// Fails unless the job has ended with this status.
    #[track_caller]
    pub fn assert_status(&self, code: i32) {
        self.check(self.status.is_some(), "the job hangs");
        let found = self.status.and_then(|status| status.code());
        self.check(found == Some(code), &format!("the status is not {code}"));
    }

    /// Fails unless the job has ended by itself with a status that is not 0.
    #[track_caller]
    pub fn assert_failed(&self) {
        self.check(self.status.is_some(), "the job hangs");
        let has_succeeded = self.status.is_some_and(|status| status.success());
        self.check(!has_succeeded, "the job did not fail");
    }

    /// Fails unless the job was refused, and one line of understudy has all of `words`.
    ///
    /// The job must have printed nothing on standard output. Standard error may have other lines.
    #[track_caller]
    pub fn assert_refused(&self, words: &[&str]) {
        self.assert_status(REFUSED);
        let has_all = |line: &&&str| words.iter().all(|word| line.contains(word));
        let lines = self.own_lines().iter().filter(has_all).count();
        self.check(
            lines == 1,
            &format!("{lines} lines instead of one have {words:?}"),
        );
        self.check(self.stdout.is_empty(), "the program has run");
        self.assert_nothing_left();
    }

    /// Fails unless the job has ended by itself, with status 0.
    #[track_caller]
    pub fn assert_success(&self) {
        self.check(self.status.is_some(), "the job hangs");
        self.check(
            self.status.is_some_and(|status| status.success()),
            "the job failed",
        );
        self.assert_no_internal_error();
    }

    /// Fails if a rank has exited because of an internal error of understudy.
    ///
    /// Without this check, an exit from which the job recovers would remain unnoticed.
    #[track_caller]
    fn assert_no_internal_error(&self) {
        let is_error = |line: &&str| line.contains("internal error");
        self.check(
            !self.own_lines().iter().any(is_error),
            "a rank has exited because of an internal error",
        );
    }

    /// Fails if a process or a file of the job is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.check(self.left_behind.is_empty(), "the job left something behind");
        self.assert_no_internal_error();
    }

    /// Fails unless every kill found its process and these workers were replaced, in this order.
    #[track_caller]
    pub fn assert_taken_over(&self, workers: &[u32]) {
        self.assert_takeovers(&self.takeovers(), workers);
    }

    /// Fails unless every kill found its process and these workers were replaced, in any order.
    ///
    /// `workers` is in ascending order. Simultaneous failures may be reported one after the other,
    /// so that several recoveries follow in any order.
    #[track_caller]
    pub fn assert_replaced(&self, workers: &[u32]) {
        let mut found = self.takeovers();
        found.sort_unstable();
        self.assert_takeovers(&found, workers);
    }

    #[track_caller]
    fn assert_takeovers(&self, found: &[u32], workers: &[u32]) {
        self.check(
            self.killed.iter().all(|killed| killed.hit),
            "the job ended before the kill",
        );
        self.check(
            found == workers,
            &format!("replaced workers: {found:?} instead of {workers:?}"),
        );
    }

    /// Fails unless understudy has printed exactly one line, and the line has all of `words`.
    #[track_caller]
    pub fn assert_single_line(&self, words: &[&str]) {
        let lines = self.own_lines();
        self.check(
            lines.len() == 1,
            &format!(
                "{} lines of understudy instead of one: {lines:?}",
                lines.len()
            ),
        );
        for word in words {
            self.check(
                lines[0].contains(word),
                &format!("the line of understudy lacks `{word}`"),
            );
        }
    }

    /// Fails unless a line of understudy has all of `words`.
    #[track_caller]
    pub fn assert_line(&self, words: &[&str]) {
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        self.check(
            self.own_lines().iter().any(has_all),
            &format!("no line of understudy has {words:?}"),
        );
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let Some(JobDirectory::Own(root)) = self.root.take() else {
            return;
        };
        if self.failed.load(Ordering::Relaxed)
            || std::thread::panicking()
            || std::env::var_os("FFI_TESTS_KEEP").is_some()
        {
            eprintln!("the job's directory is kept: {}", root.keep().display());
        }
    }
}
