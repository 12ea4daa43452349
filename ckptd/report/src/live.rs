//! The current state of a job, from event files that are still being written.

use crate::Event;
use crate::described::{by_number, described};
use crate::merge::Merge;
use crate::units::{bytes, count, time};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use understudy_formats::events::{
    EndReason, Epoch, EventFollower, FramedRecord, Kind, ProcessNumber, Role, Worker,
    rank_of_file_name,
};

/// A process of the job.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    pub pid: u32,
    pub host: String,
    /// Current role of the process.
    #[serde(serialize_with = "described")]
    pub role: Role,
    /// End that the process has recorded, if any.
    #[serde(serialize_with = "described")]
    pub end: Option<EndReason>,
    /// True if other processes have detected the death of the process.
    pub has_failed: bool,
}

/// The last committed checkpoint.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LastCheckpoint {
    #[serde(serialize_with = "described")]
    pub epoch: Epoch,
    /// Captured bytes of all workers together.
    pub bytes: u64,
    /// Pause of the program, in the slowest worker.
    pub pause_ns: u64,
    /// Time of the first worker's commit, in nanoseconds since 1970.
    pub at_ns: u64,
}

/// State of a job's protection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// Before the first checkpoint.
    Starting,
    Protected,
    /// The job is not protected, for this reason.
    Refused(String),
}

/// Captures of a checkpoint by all workers.
#[derive(Debug, Clone, Copy, Default)]
struct CaptureTotals {
    bytes: u64,
    /// Pause of the program, in the slowest worker.
    pause_ns: u64,
}

/// The current state of a job.
#[derive(Debug, Clone, Serialize)]
pub struct JobState {
    pub job: String,
    pub program: String,
    pub workers: u32,
    pub spares: u32,
    /// Start of the first process, in nanoseconds since 1970.
    pub started_ns: u64,
    pub protection: Protection,
    pub checkpoint: Option<LastCheckpoint>,
    /// Reason why the job was lost; `None` if it was not lost.
    pub lost: Option<String>,
    /// Number of completed recoveries.
    pub recoveries: u32,
    #[serde(serialize_with = "by_number")]
    pub processes: BTreeMap<ProcessNumber, Process>,
    /// Checkpoints that are not committed yet.
    #[serde(skip)]
    captures: BTreeMap<Epoch, CaptureTotals>,
}

impl JobState {
    /// Returns the state of a job without events.
    fn new() -> Self {
        Self {
            job: String::new(),
            program: String::new(),
            workers: 0,
            spares: 0,
            started_ns: u64::MAX,
            protection: Protection::Starting,
            checkpoint: None,
            lost: None,
            recoveries: 0,
            processes: BTreeMap::new(),
            captures: BTreeMap::new(),
        }
    }

    /// Returns the number of processes whose death other processes have detected.
    pub fn failures(&self) -> usize {
        self.processes
            .values()
            .filter(|process| process.has_failed)
            .count()
    }

    /// Returns the number of spares that can still take over.
    pub fn idle_spares(&self) -> usize {
        let is_idle = |process: &&Process| {
            matches!(process.role, Role::Spare(_)) && !process.has_failed && process.end.is_none()
        };
        self.processes.values().filter(is_idle).count()
    }

    /// Returns the process that runs a worker, or else a failed one that ran it.
    pub fn process_of(&self, worker: Worker) -> Option<(ProcessNumber, &Process)> {
        let runs_worker = |process: &Process| process.role == Role::Worker(worker);
        let mut processes = self
            .processes
            .iter()
            .filter(|(_, process)| runs_worker(process));
        let alive = processes.clone().find(|(_, process)| !process.has_failed);
        alive
            .or_else(|| processes.next())
            .map(|(rank, process)| (*rank, process))
    }

    /// Returns the job's state in one line; `now_ns` is in nanoseconds since 1970.
    pub fn to_line(&self, now_ns: u64) -> String {
        let mut parts = Vec::new();
        match &self.protection {
            Protection::Starting => parts.push("not yet protected".to_owned()),
            Protection::Refused(_) => parts.push("UNPROTECTED".to_owned()),
            Protection::Protected => parts.push(match self.idle_spares() {
                0 => "no spare left".to_owned(),
                spares => format!("protected, {}", count(spares, "spare", "spares")),
            }),
        }
        if let Some(last) = self.checkpoint {
            let ago = now_ns.saturating_sub(last.at_ns) / 1_000_000_000;
            let (size, pause) = (bytes(last.bytes), time(last.pause_ns));
            parts.push(format!(
                "checkpoint {} ({size} in {pause}, {ago} s ago)",
                last.epoch
            ));
        }
        parts.push(self.failures_in_words());
        parts.join(" | ")
    }

    /// Returns the state of a job that has ended with a status, in one line.
    pub fn to_last_line(&self, status: u8) -> String {
        let end = match status {
            0 => "ended well".to_owned(),
            status => format!("ended with status {status}"),
        };
        let mut parts = vec![match (&self.protection, self.lost.is_some()) {
            (Protection::Starting, _) => format!("{end}, before the first checkpoint"),
            (Protection::Refused(_), _) => format!("{end}, UNPROTECTED"),
            (Protection::Protected, true) => end,
            (Protection::Protected, false) => format!(
                "{end}, {}",
                match self.unused_spares(status) {
                    0 => "no spare left".to_owned(),
                    spares => format!("{} left", count(spares, "spare", "spares")),
                }
            ),
        }];
        if let Some(last) = self.checkpoint {
            let (size, pause) = (bytes(last.bytes), time(last.pause_ns));
            parts.push(format!(
                "last checkpoint: {} ({size} in {pause})",
                last.epoch
            ));
        }
        parts.push(self.failures_in_words());
        parts.join(" | ")
    }

    /// Returns the number of spares that have neither failed nor taken over from a worker.
    ///
    /// Processes record no death of an idle spare, but a job that ends well releases its spares.
    fn unused_spares(&self, status: u8) -> usize {
        let is_unused = |process: &&Process| {
            matches!(process.role, Role::Spare(_))
                && !process.has_failed
                && (status != 0 || process.end == Some(EndReason::Released))
        };
        self.processes.values().filter(is_unused).count()
    }

    fn failures_in_words(&self) -> String {
        let recoveries = count(self.recoveries, "recovery", "recoveries");
        match (self.failures(), self.recoveries, &self.lost) {
            (0, ..) => "no failures".to_owned(),
            (1, 1, None) => "1 failure, recovered from".to_owned(),
            (failures, _, None) => {
                format!("{}, {recoveries}", count(failures, "failure", "failures"))
            }
            (1, _, Some(_)) => "1 failure, not recovered from".to_owned(),
            (failures, _, Some(_)) => {
                let failures = count(failures, "failure", "failures");
                format!("{failures}, {recoveries}, the last failure not recovered from")
            }
        }
    }

    fn apply(&mut self, event: Event) {
        let Event {
            at_ns, rank, kind, ..
        } = event;
        match kind {
            Kind::Start {
                pid,
                role,
                workers,
                spares,
                host,
                program,
                job,
                ..
            } => {
                // A later job writes into the directory of an earlier job.
                if self.job != job {
                    *self = Self::new();
                }
                (self.job, self.program, self.workers, self.spares) =
                    (job, program, workers, spares);
                self.started_ns = self.started_ns.min(at_ns);
                let (end, has_failed) = (None, false);
                let process = Process {
                    pid,
                    host,
                    role,
                    end,
                    has_failed,
                };
                self.processes.insert(rank, process);
            }
            Kind::Capture {
                epoch,
                bytes,
                scan_ns,
                copy_ns,
                ..
            } => {
                let totals = self.captures.entry(epoch).or_default();
                totals.bytes = totals.bytes.saturating_add(bytes);
                totals.pause_ns = totals.pause_ns.max(scan_ns.saturating_add(copy_ns));
            }
            Kind::Commit { epoch, .. } => self.commit(epoch, at_ns),
            Kind::FailureDetected { failed, .. } => {
                failed.into_iter().for_each(|rank| self.fail(rank))
            }
            Kind::Death { rank, .. } => self.fail(rank),
            Kind::Lost { reason, .. } => self.lost = Some(reason),
            Kind::Takeover { as_worker, .. } => {
                let before: Vec<_> = self
                    .process_of(as_worker)
                    .into_iter()
                    .map(|(rank, _)| rank)
                    .collect();
                before
                    .into_iter()
                    .filter(|&before| before != rank)
                    .for_each(|rank| self.fail(rank));
                if let Some(process) = self.processes.get_mut(&rank) {
                    process.role = Role::Worker(as_worker);
                }
            }
            Kind::Resume {
                recovery, epoch, ..
            } => {
                self.recoveries = self.recoveries.max(recovery);
                // Later captures will be repeated.
                self.captures.retain(|&cut, _| cut <= epoch);
                self.protection = Protection::Protected;
            }
            Kind::Refused { reason } => self.protection = Protection::Refused(reason),
            Kind::End { how } => {
                if let Some(process) = self.processes.get_mut(&rank) {
                    process.end = Some(how);
                }
            }
            _ => {}
        }
    }

    fn fail(&mut self, rank: ProcessNumber) {
        if let Some(process) = self.processes.get_mut(&rank) {
            process.has_failed = true;
        }
    }

    fn commit(&mut self, epoch: Epoch, at_ns: u64) {
        if self.protection == Protection::Starting {
            self.protection = Protection::Protected;
        }
        let CaptureTotals { bytes, pause_ns } =
            self.captures.get(&epoch).copied().unwrap_or_default();
        self.captures.retain(|&cut, _| cut >= epoch);
        let before = self.checkpoint.filter(|last| last.epoch == epoch);
        self.checkpoint = Some(LastCheckpoint {
            epoch,
            bytes,
            pause_ns,
            at_ns: before.map_or(at_ns, |last| last.at_ns.min(at_ns)),
        });
    }
}

/// Reader of the event files of one directory while they are written.
pub struct Live {
    dir: PathBuf,
    files: BTreeMap<ProcessNumber, EventFollower>,
    state: JobState,
    /// Unreadable files, with the reasons.
    problems: BTreeSet<String>,
}

impl Live {
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            files: BTreeMap::new(),
            state: JobState::new(),
            problems: BTreeSet::new(),
        }
    }

    /// Reads new events and returns the job's state; `None` until a process has begun.
    pub fn poll(&mut self) -> io::Result<Option<&JobState>> {
        self.find_files()?;
        let sources = self.files.iter_mut().map(|(&rank, follower)| Source {
            rank,
            follower,
            problem: None,
        });
        // The events of one batch are handled in order of time.
        let mut new_events = Merge::new(sources);
        for event in &mut new_events {
            self.state.apply(event);
        }
        let problems = new_events
            .into_sources()
            .filter_map(|source| source.problem);
        self.problems.extend(problems);
        Ok(Some(&self.state).filter(|state| !state.processes.is_empty()))
    }

    /// Returns the files that could not be read, with the reasons.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        self.problems.iter()
    }

    /// Opens event files that are new, or that have replaced older files.
    fn find_files(&mut self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let rank = entry.file_name().to_str().and_then(rank_of_file_name);
            let is_new = |rank: &ProcessNumber| {
                let known = self.files.get(rank);
                known.is_none_or(|follower| follower.is_replaced(&entry.path()))
            };
            if let Some(rank) = rank.filter(is_new) {
                self.files.insert(rank, EventFollower::open(&entry.path())?);
            }
        }
        Ok(())
    }
}

/// New records of a file, with times since 1970.
struct Source<'a> {
    rank: ProcessNumber,
    follower: &'a mut EventFollower,
    /// Damage, or an error, because of which no more records are read.
    problem: Option<String>,
}

impl Iterator for Source<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        match self.follower.poll() {
            Ok(framed) => {
                let FramedRecord { record, bytes } = framed?;
                let began_ns = self.follower.header()?.clocks.realtime_ns;
                Some(Event::new(self.rank, began_ns, record, bytes))
            }
            Err(error) => {
                let file = understudy_formats::events::file_name(self.rank);
                self.problem = Some(format!("{file}: {error}"));
                None
            }
        }
    }
}
