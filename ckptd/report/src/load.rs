//! Finding, verifying and aligning the event files of a directory.

use crate::RunRecord;
use crate::described::described;
use crate::event_timeline::{EventFile, FileId, Timeline};
use crate::units::count;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use understudy_formats::events::{
    EventReader, HEADER_LEN, Header, Kind, ProcessNumber, ReadError, file_name, rank_of_file_name,
};

/// Smallest difference of offsets that shows different clocks in two files of one host.
const SAME_CLOCK_TOLERANCE_NS: i128 = 1_000_000_000;

/// Limit of missing files that are listed by name.
const MAX_LISTED_MISSING_FILES: usize = 8;

/// Reasons for which no report is possible.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "the directory {dir} cannot be read: {source}. Give the directory of the job's event files."
    )]
    Directory { dir: PathBuf, source: io::Error },
    #[error(
        "{0}: no event files (rank-N.events). Give the directory that the job's option --events, \
         or UNDERSTUDY_EVENTS, names."
    )]
    Empty(PathBuf),
    #[error(
        "{dir}: no event file is usable:\n{}\nUse the understudy program of the version the job \
         ran with.",
        problems.join("\n")
    )]
    Nothing { dir: PathBuf, problems: Vec<String> },
}

/// Summary of one rank's file.
#[derive(Debug, Clone, Serialize)]
pub struct RankFile {
    #[serde(serialize_with = "described")]
    pub rank: ProcessNumber,
    pub file: String,
    pub records: usize,
    /// True if the file ends inside a record, as after the kill of a rank.
    pub torn: bool,
}

/// The event files of a directory, verified and aligned.
#[derive(Debug)]
pub struct Job {
    pub ranks: Vec<RankFile>,
    pub notes: Vec<String>,
    pub problems: Vec<String>,
    pub timeline: Timeline,
    /// Origin of the timeline, in nanoseconds since 1970.
    pub began_ns: u64,
    /// Record of `understudy run`, if it has started the job.
    pub run: Option<RunRecord>,
}

/// A file after its first reading.
struct Loaded {
    header: Header,
    file: EventFile,
    host: Option<String>,
}

/// Jobs to which the files belong, and the number of their processes.
#[derive(Default)]
struct Started {
    jobs: BTreeSet<String>,
    /// Smallest number of workers and spares that a rank has recorded at its start.
    size: Option<u32>,
}

impl Job {
    /// Reads all files once to detect damage; keeps no records.
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
            timeline: Timeline::default(),
            began_ns: 0,
            run: None,
        };
        let mut started = Started::default();
        let mut loaded = Vec::new();
        for (rank, path) in files {
            loaded.extend(job.read(rank, path, &mut started));
        }
        if loaded.is_empty() && !job.problems.is_empty() {
            return Err(LoadError::Nothing {
                dir: dir.to_owned(),
                problems: job.problems,
            });
        }
        job.check_one_job(started.jobs);
        job.check_all_ranks(started.size);
        job.began_ns = loaded
            .iter()
            .map(|file| file.header.clocks.realtime_ns)
            .min()
            .unwrap_or(0);
        job.run = RunRecord::of_job(dir, job.began_ns);
        job.timeline = Timeline::new(align(loaded));
        Ok(job)
    }

    fn read(
        &mut self,
        rank: ProcessNumber,
        path: PathBuf,
        started: &mut Started,
    ) -> Option<Loaded> {
        let name = path.file_name().unwrap_or_default();
        let mut entry = RankFile {
            rank,
            file: name.to_string_lossy().into_owned(),
            records: 0,
            torn: false,
        };
        let opened = EventReader::open(&path).and_then(|reader| {
            let metadata = reader.source().metadata()?;
            Ok((reader, FileId::of(&metadata)))
        });
        let (mut reader, id) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.complain(&mut entry, &error);
                return None;
            }
        };
        let header = reader.header();
        let mut loaded = Loaded {
            header,
            file: EventFile {
                path,
                id,
                rank: header.rank,
                since_ns: 0,
                length: HEADER_LEN as u64,
            },
            host: None,
        };
        while let Some(item) = reader.next_framed() {
            match item {
                Ok(framed) => {
                    loaded.file.length += framed.bytes as u64;
                    entry.records += 1;
                    loaded.host = loaded.host.or_else(|| started.record(framed.record.kind));
                }
                Err(error) => self.complain(&mut entry, &error),
            }
        }
        if header.rank != rank {
            self.problems.push(format!(
                "{}: was written by rank {}; it has been renamed",
                entry.file, header.rank
            ));
        }
        self.ranks.push(entry);
        Some(loaded)
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

    fn check_one_job(&mut self, jobs: BTreeSet<String>) {
        if jobs.len() > 1 {
            let names = jobs.into_iter().collect::<Vec<_>>().join(", ");
            self.problems.push(format!(
                "the files are of different jobs ({names}); give every job an event directory of \
                 its own"
            ));
        }
    }

    /// Reports missing files of processes with which the job was started.
    fn check_all_ranks(&mut self, size: Option<u32>) {
        let Some(size) = size else { return };
        let present: BTreeSet<_> = self.ranks.iter().map(|file| file.rank).collect();
        // Damaged files have been reported already.
        let is_shown = |name: &str| {
            self.problems
                .iter()
                .any(|problem| problem.starts_with(&format!("{name}:")))
        };
        let missing = (0..size).map(ProcessNumber);
        let missing = missing
            .filter(|rank| !present.contains(rank))
            .map(file_name);
        let missing: Vec<String> = missing
            .filter(|name| !is_shown(name))
            .take(MAX_LISTED_MISSING_FILES + 1)
            .collect();
        let more = if missing.len() > MAX_LISTED_MISSING_FILES {
            ", …"
        } else {
            ""
        };
        if !missing.is_empty() {
            self.problems.push(format!(
                "{}{more}: missing, of the files of {}; was the directory not the same for all \
                 nodes?",
                missing[..missing.len().min(MAX_LISTED_MISSING_FILES)].join(", "),
                count(size, "process", "processes")
            ));
        }
    }
}

impl Started {
    /// Records the start of a rank and returns its host.
    fn record(&mut self, kind: Kind) -> Option<String> {
        let Kind::Start {
            job,
            workers,
            spares,
            host,
            ..
        } = kind
        else {
            return None;
        };
        let size = workers.saturating_add(spares);
        self.size = Some(self.size.map_or(size, |least| least.min(size)));
        self.jobs.insert(job);
        Some(host)
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

/// Aligns the files on one clock, and sorts them by their beginning.
///
/// Ranks of one host share `CLOCK_MONOTONIC`, which no adjustment of the time of day changes. So
/// all files of a host use one offset from that clock to real time: that of the host's first file.
/// For example, a rank that starts after NTP has set the time back by 0.2 s still appears after the
/// earlier ranks. An offset that differs by a second or more shows another clock, such as that of a
/// node that was rebooted; such a file uses its own offset. Between hosts, real time is compared.
fn align(mut files: Vec<Loaded>) -> Vec<EventFile> {
    files.sort_by_key(|file| file.header.clocks.realtime_ns);
    let mut offsets: BTreeMap<String, i128> = BTreeMap::new();
    let mut starts = Vec::new();
    for file in &files {
        let clocks = file.header.clocks;
        let own_offset = i128::from(clocks.realtime_ns) - i128::from(clocks.monotonic_ns);
        let host_offset = file.host.clone().map_or(own_offset, |host| {
            *offsets.entry(host).or_insert(own_offset)
        });
        let offset = if (own_offset - host_offset).abs() < SAME_CLOCK_TOLERANCE_NS {
            host_offset
        } else {
            own_offset
        };
        starts.push(offset + i128::from(clocks.monotonic_ns));
    }
    let origin = starts.iter().copied().min().unwrap_or(0);
    let aligned = files.into_iter().zip(starts);
    aligned
        .map(|(loaded, start)| EventFile {
            since_ns: (start - origin) as u64,
            ..loaded.file
        })
        .collect()
}
