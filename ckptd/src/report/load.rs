//! Finding, reading and aligning the event files of a directory.

use crate::events::{
    EventReader, Header, Kind, ProcessNumber, ReadError, Record, file_name, rank_of_file_name,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Clocks of one host that disagree by more than this are not the same clock after all.
const SAME_CLOCK_NS: i128 = 1_000_000_000;

/// Missing files that are named one by one.
const MISSING_LISTED: usize = 8;

/// No job lasts longer (146 years); a file may say so all the same.
const LATEST_NS: u64 = i64::MAX as u64 / 2;

/// Why there is nothing to report on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{dir}: {source}. Give the directory the job was told to write its events to.")]
    Directory { dir: PathBuf, source: io::Error },
    #[error(
        "{0}: no event files (rank-N.events). Run the job with its event directory set to this one, or give the right \
         one."
    )]
    Empty(PathBuf),
    #[error(
        "{dir}: no event file is usable:\n{}\nUse the understudy program of the version the job ran with.",
        problems.join("\n")
    )]
    Nothing { dir: PathBuf, problems: Vec<String> },
}

/// One rank's file in short.
#[derive(Debug, Clone, Serialize)]
pub struct RankFile {
    pub rank: ProcessNumber,
    pub file: String,
    pub records: usize,
    /// The file ends inside a record, as a killed rank's may.
    pub torn: bool,
}

/// A record in the job's own time.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Nanoseconds since the first rank began its file.
    pub at_ns: u64,
    pub rank: ProcessNumber,
    pub epoch: crate::events::Epoch,
    #[serde(rename = "event")]
    pub kind: Kind,
}

/// All event files of a directory, merged.
#[derive(Debug)]
pub struct Job {
    pub ranks: Vec<RankFile>,
    pub notes: Vec<String>,
    pub problems: Vec<String>,
    /// In order of time.
    pub events: Vec<Event>,
    /// The origin of their times, in nanoseconds since 1970.
    pub began_ns: u64,
    /// What `understudy run` has written down.
    pub run: Option<super::RunRecord>,
}

struct Loaded {
    header: Header,
    records: Vec<Record>,
    host: Option<String>,
}

impl Job {
    pub fn load(dir: &Path) -> Result<Self, LoadError> {
        let files = event_files(dir).map_err(|source| LoadError::Directory {
            dir: dir.to_owned(),
            source,
        })?;
        if files.is_empty() {
            return Err(LoadError::Empty(dir.to_owned()));
        }
        let mut job = Self {
            ranks: Vec::new(),
            notes: Vec::new(),
            problems: Vec::new(),
            events: Vec::new(),
            began_ns: 0,
            run: None,
        };
        let loaded: Vec<_> = files
            .iter()
            .filter_map(|(rank, path)| job.read(*rank, path))
            .collect();
        if loaded.is_empty() && !job.problems.is_empty() {
            return Err(LoadError::Nothing {
                dir: dir.to_owned(),
                problems: job.problems,
            });
        }
        job.check_one_job(&loaded);
        job.check_all_ranks(&loaded);
        job.began_ns = loaded
            .iter()
            .map(|file| file.header.clocks.realtime_ns)
            .min()
            .unwrap_or(0);
        job.run = super::RunRecord::of_job(dir, job.began_ns);
        job.events = merge(loaded);
        Ok(job)
    }

    fn read(&mut self, rank: ProcessNumber, path: &Path) -> Option<Loaded> {
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut entry = RankFile {
            rank,
            file,
            records: 0,
            torn: false,
        };
        let reader = match EventReader::open(path) {
            Ok(reader) => reader,
            Err(error) => {
                self.complain(&mut entry, &error);
                return None;
            }
        };
        let header = reader.header();
        let mut records = Vec::new();
        for item in reader {
            match item {
                Ok(record) => records.push(record),
                Err(error) => self.complain(&mut entry, &error),
            }
        }
        if header.rank != rank {
            self.problems.push(format!(
                "{}: was written by rank {}; it has been renamed",
                entry.file, header.rank
            ));
        }
        entry.records = records.len();
        self.ranks.push(entry);
        let host = records.iter().find_map(|record| match &record.kind {
            Kind::Start { host, .. } => Some(host.clone()),
            _ => None,
        });
        Some(Loaded {
            header,
            records,
            host,
        })
    }

    fn complain(&mut self, entry: &mut RankFile, error: &ReadError) {
        let line = format!("{}: {error}", entry.file);
        if error.is_torn_tail() {
            entry.torn = true;
            self.notes.push(line);
        } else {
            self.problems.push(line);
        }
    }

    fn check_one_job(&mut self, loaded: &[Loaded]) {
        let records = loaded.iter().flat_map(|file| &file.records);
        let jobs: BTreeSet<_> = records
            .filter_map(|record| match &record.kind {
                Kind::Start { job, .. } => Some(job.as_str()),
                _ => None,
            })
            .collect();
        if jobs.len() > 1 {
            let names = jobs.into_iter().collect::<Vec<_>>().join(", ");
            self.problems.push(format!(
                "the files are of different jobs ({names}); give every job an event directory of its own"
            ));
        }
    }
}

impl Job {
    /// Names the files of processes that the job was started with and that are not there.
    fn check_all_ranks(&mut self, loaded: &[Loaded]) {
        let records = loaded.iter().flat_map(|file| &file.records);
        let sizes = records.filter_map(|record| match &record.kind {
            Kind::Start {
                workers, spares, ..
            } => Some(workers.saturating_add(*spares)),
            _ => None,
        });
        let Some(size) = sizes.min() else { return };
        let is_there = |rank: ProcessNumber| self.ranks.iter().any(|file| file.rank == rank);
        // Damaged files are told of already.
        let is_told = |name: &str| {
            self.problems
                .iter()
                .any(|problem| problem.starts_with(&format!("{name}:")))
        };
        let missing = (0..size).map(ProcessNumber).filter(|rank| !is_there(*rank));
        let missing = missing.map(file_name);
        let missing: Vec<String> = missing
            .filter(|name| !is_told(name))
            .take(MISSING_LISTED + 1)
            .collect();
        let more = if missing.len() > MISSING_LISTED {
            ", …"
        } else {
            ""
        };
        if !missing.is_empty() {
            self.problems.push(format!(
                "{}{more}: missing, of the files of {size} processes; was the directory not the same for all nodes?",
                missing[..missing.len().min(MISSING_LISTED)].join(", ")
            ));
        }
    }
}

fn event_files(dir: &Path) -> io::Result<Vec<(ProcessNumber, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(rank) = entry.file_name().to_str().and_then(rank_of_file_name) {
            files.push((rank, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

/// Brings the records on one clock. Ranks of one host share `CLOCK_MONOTONIC`, so there the file begun
/// first decides how it relates to real time; between hosts it is their real-time clocks that count.
fn merge(mut files: Vec<Loaded>) -> Vec<Event> {
    files.sort_by_key(|file| file.header.clocks.realtime_ns);
    let mut offsets: BTreeMap<String, i128> = BTreeMap::new();
    let mut starts = Vec::new();
    for file in &files {
        let clocks = file.header.clocks;
        let own = i128::from(clocks.realtime_ns) - i128::from(clocks.monotonic_ns);
        let host = file
            .host
            .clone()
            .map_or(own, |host| *offsets.entry(host).or_insert(own));
        let offset = if (own - host).abs() < SAME_CLOCK_NS {
            host
        } else {
            own
        };
        starts.push(offset + i128::from(clocks.monotonic_ns));
    }
    let origin = starts.iter().copied().min().unwrap_or(0);
    let mut events: Vec<Event> = Vec::new();
    for (file, start) in files.into_iter().zip(starts) {
        let (rank, since) = (file.header.rank, (start - origin) as u64);
        events.extend(
            file.records
                .into_iter()
                .map(|Record { t, epoch, kind }| Event {
                    at_ns: since.saturating_add(t).min(LATEST_NS),
                    rank,
                    epoch,
                    kind,
                }),
        );
    }
    events.sort_by_key(|event| event.at_ns);
    events
}
