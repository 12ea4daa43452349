//! Event files: how much each kind of record takes, who has sent how much to whom, and what journals are made of.

use super::tables;
use ckptd::events::{Kind, ProcessNumber, Record, Worker, encode_record};
use ckptd::report::{Event, Job, JournalTable, Traffic, bytes};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What copies have moved from one rank to another.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct Copied {
    pub checkpoints: u64,
    pub bytes: u64,
    /// Pages that were left out, since the other one has them itself.
    pub alike: u64,
}

/// A pair of ranks.
#[derive(Debug, Serialize)]
pub struct Pair {
    pub from: ProcessNumber,
    pub to: ProcessNumber,
    #[serde(flatten)]
    pub copied: Copied,
}

/// Records of one kind.
#[derive(Debug, Default, Serialize)]
pub struct Amount {
    pub records: u64,
    pub bytes: u64,
}

/// The event files of a directory.
#[derive(Debug, Serialize)]
pub struct EventFiles {
    pub directory: PathBuf,
    pub ranks: usize,
    pub records: usize,
    pub kinds: BTreeMap<String, Amount>,
    /// Copies, by who sent them to whom.
    pub copies: Vec<Pair>,
    /// Bytes of the journals of the initialisation phase, by worker, as far as they were rehearsed or kept.
    pub journals: BTreeMap<Worker, u64>,
    /// What the program has sent.
    pub traffic: Option<Traffic>,
    /// What the journals are made of.
    pub journal_calls: Option<JournalTable>,
    pub notes: Vec<String>,
    pub problems: Vec<String>,
}

/// Reads the directories that the files are in.
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
        let mut it = Self {
            directory: here.to_owned(),
            ranks: 0,
            records: 0,
            kinds: BTreeMap::new(),
            copies: Vec::new(),
            journals: BTreeMap::new(),
            traffic: None,
            journal_calls: None,
            notes: Vec::new(),
            problems: Vec::new(),
        };
        match Job::load(here) {
            Ok(job) => it.count(job),
            Err(error) => it.problems.push(error.to_string()),
        }
        it
    }

    fn count(&mut self, job: Job) {
        self.ranks = job.ranks.len();
        self.records = job.events.len();
        (self.notes, self.problems) = (job.notes, job.problems);
        self.traffic = Traffic::new(&job.events);
        self.journal_calls = JournalTable::new(&job.events);
        let mut pairs: BTreeMap<(ProcessNumber, ProcessNumber), Copied> = BTreeMap::new();
        for event in job.events {
            match event.kind {
                Kind::Ship {
                    to, bytes, alike, ..
                } => {
                    let copied = pairs.entry((event.rank, to)).or_default();
                    copied.checkpoints += 1;
                    copied.bytes += bytes;
                    copied.alike += alike;
                }
                Kind::Rehearsal {
                    worker, journal, ..
                }
                | Kind::Thinned {
                    worker, journal, ..
                } => {
                    self.journals.insert(worker, journal);
                }
                _ => {}
            }
            let amount = self.kinds.entry(name(&event.kind)).or_default();
            amount.records += 1;
            amount.bytes += length(event);
        }
        self.copies = pairs
            .into_iter()
            .map(|((from, to), copied)| Pair { from, to, copied })
            .collect();
    }

    pub fn describe(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "{}: {} event files, {} records",
            self.directory.display(),
            self.ranks,
            self.records
        );
        for (kind, amount) in &self.kinds {
            let _ = writeln!(
                out,
                "  {kind:<18} {:>7} records {:>10}",
                amount.records,
                bytes(amount.bytes)
            );
        }
        for Pair { from, to, copied } in &self.copies {
            let left_out = match copied.alike {
                0 => String::new(),
                pages => format!(", without {pages} pages that it has itself"),
            };
            let _ = writeln!(
                out,
                "  copies of rank {from} to rank {to}: {} in {} checkpoints{left_out}",
                bytes(copied.bytes),
                copied.checkpoints
            );
        }
        for (worker, journal) in &self.journals {
            let _ = writeln!(out, "  journal of worker {worker}: {}", bytes(*journal));
        }
        if let Some(traffic) = &self.traffic {
            tables::traffic(out, traffic);
        }
        if let Some(journal) = &self.journal_calls {
            tables::journal(out, journal);
        }
        for note in &self.notes {
            let _ = writeln!(out, "  note: {note}");
        }
    }
}

/// As `--json` of `understudy events` calls it.
fn name(kind: &Kind) -> String {
    let value = serde_json::to_value(kind).unwrap_or_default();
    value["type"].as_str().unwrap_or("other").to_owned()
}

fn length(event: Event) -> u64 {
    let Event {
        epoch, kind, at_ns, ..
    } = event;
    encode_record(&Record {
        t: at_ns,
        epoch,
        kind,
    })
    .map_or(0, |frame| frame.len() as u64)
}
