//! Event files: sizes by kind of record, replica traffic, journals.

use super::tables;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use understudy_formats::events::{Kind, ProcessNumber, Worker};
use understudy_report::{Job, JournalTable, Report, bytes, count};
use understudy_report::{by_number, described};

/// Replica data that one rank has sent to another.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct ReplicaTraffic {
    pub checkpoints: u64,
    pub bytes: u64,
    /// Pages that were elided because the other rank has equal pages.
    pub alike: u64,
}

/// Replica data that the rank `from` has sent to the rank `to`.
#[derive(Debug, Serialize)]
pub struct RankPair {
    #[serde(serialize_with = "described")]
    pub from: ProcessNumber,
    #[serde(serialize_with = "described")]
    pub to: ProcessNumber,
    #[serde(flatten)]
    pub copied: ReplicaTraffic,
}

/// Records of one kind.
#[derive(Debug, Default, Serialize)]
pub struct RecordTotal {
    pub records: u64,
    pub bytes: u64,
}

/// The event files of a directory.
#[derive(Debug, Serialize)]
pub struct EventFiles {
    pub directory: PathBuf,
    pub ranks: usize,
    pub records: usize,
    pub kinds: BTreeMap<String, RecordTotal>,
    /// Replica data, by sender and receiver.
    pub copies: Vec<RankPair>,
    /// Bytes of each worker's last journal that had a trial replay or reduced a replica.
    #[serde(serialize_with = "by_number")]
    pub journals: BTreeMap<Worker, u64>,
    /// Calls in the journals.
    pub journal_calls: Option<JournalTable>,
    pub notes: Vec<String>,
    pub problems: Vec<String>,
}

/// Reads all event files in the directories of these files.
pub fn read(files: &[PathBuf]) -> Vec<EventFiles> {
    let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    directories.into_iter().map(EventFiles::read).collect()
}

impl EventFiles {
    fn read(directory: &Path) -> Self {
        let here = if directory.as_os_str().is_empty() {
            Path::new(".")
        } else {
            directory
        };
        let mut event_files = Self {
            directory: here.to_owned(),
            ranks: 0,
            records: 0,
            kinds: BTreeMap::new(),
            copies: Vec::new(),
            journals: BTreeMap::new(),
            journal_calls: None,
            notes: Vec::new(),
            problems: Vec::new(),
        };
        match Job::load(here) {
            Ok(job) => event_files.count(job),
            Err(error) => event_files.problems.push(error.to_string()),
        }
        event_files
    }

    fn count(&mut self, job: Job) {
        let mut pairs: BTreeMap<(ProcessNumber, ProcessNumber), ReplicaTraffic> = BTreeMap::new();
        let mut kinds: BTreeMap<&'static str, RecordTotal> = BTreeMap::new();
        let mut report = Report::observed(job, |event| {
            match event.kind {
                Kind::Ship {
                    to, bytes, alike, ..
                } => {
                    let copied = pairs.entry((event.rank, to)).or_default();
                    copied.checkpoints += 1;
                    copied.bytes = copied.bytes.saturating_add(bytes);
                    copied.alike = copied.alike.saturating_add(alike);
                }
                Kind::TrialReplay {
                    worker, journal, ..
                }
                | Kind::ReplicaReduced {
                    worker, journal, ..
                } => {
                    self.journals.insert(worker, journal);
                }
                _ => {}
            }
            let total = kinds.entry(event.kind.name()).or_default();
            total.records += 1;
            total.bytes += event.frame_bytes as u64;
        });
        report.check_unchanged();
        self.ranks = report.ranks.len();
        self.records = report.ranks.iter().map(|file| file.records).sum();
        (self.notes, self.problems) = (report.notes, report.problems);
        self.journal_calls = report.journals;
        self.kinds = kinds
            .into_iter()
            .map(|(kind, total)| (kind.to_owned(), total))
            .collect();
        self.copies = pairs
            .into_iter()
            .map(|((from, to), copied)| RankPair { from, to, copied })
            .collect();
    }

    pub fn describe(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "{}: {}, {}",
            self.directory.display(),
            count(self.ranks, "event file", "event files"),
            count(self.records, "record", "records")
        );
        for (kind, total) in &self.kinds {
            let _ = writeln!(
                out,
                "  {kind:<18} {:>15} {:>10}",
                count(total.records, "record", "records"),
                bytes(total.bytes)
            );
        }
        for RankPair { from, to, copied } in &self.copies {
            let left_out = match copied.alike {
                0 => String::new(),
                pages => format!(
                    ", without {} that rank {to} has itself",
                    count(pages, "page", "pages")
                ),
            };
            let _ = writeln!(
                out,
                "  replicas of rank {from} to rank {to}: {} in {}{left_out}",
                bytes(copied.bytes),
                count(copied.checkpoints, "checkpoint", "checkpoints")
            );
        }
        for (worker, journal) in &self.journals {
            let _ = writeln!(out, "  set-up log of worker {worker}: {}", bytes(*journal));
        }
        if let Some(journal) = &self.journal_calls {
            tables::journal(out, journal);
        }
        for note in &self.notes {
            let _ = writeln!(out, "  note: {note}");
        }
    }
}
