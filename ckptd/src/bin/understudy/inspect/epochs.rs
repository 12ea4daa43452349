//! Checkpoints on disk.

use super::shared_pages::{self, Sharing, Sums};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use understudy_formats::epochs::epoch_files::EpochKey;
use understudy_formats::epochs::epoch_format::{Decoder, EpochError, JobIdentity, SECTION_PAGES};
use understudy_formats::pages::PAGE_SIZE;
use understudy_formats::private_directories::open_regular;
use understudy_numbers::{Epoch, Worker};
use understudy_report::described;
use understudy_report::{bytes, count};

/// A worker's file of a checkpoint.
#[derive(Debug, Serialize)]
pub struct EpochFile {
    pub path: PathBuf,
    /// Length of the file.
    pub bytes: u64,
    /// Content of the file's head; `None` if the head cannot be read.
    pub content: Option<Content>,
    pub damage: Option<String>,
    #[serde(skip)]
    sums: Sums,
}

/// Content of a file.
#[derive(Debug, Serialize)]
pub struct Content {
    pub lineage: u64,
    pub term: u64,
    pub generation: u64,
    #[serde(serialize_with = "described")]
    pub epoch: Epoch,
    #[serde(serialize_with = "described")]
    pub worker: Worker,
    pub workers: u32,
    pub program: String,
    pub arguments: Vec<String>,
    pub mpi: String,
    pub build: u64,
    /// Bytes of the encoded state: registers, MPI objects, files.
    pub state: u64,
    pub pages: u64,
    /// Number of runs of consecutive pages.
    pub runs: usize,
}

impl EpochFile {
    /// Reads the file to its end, and compares its checksums.
    pub fn read(path: &Path) -> Self {
        let bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let (mut content, mut sums) = (None, Sums::default());
        let damage = verify(path, &mut content, &mut sums)
            .err()
            .map(|damage| damage.to_string());
        Self {
            path: path.to_owned(),
            bytes,
            content,
            damage,
            sums,
        }
    }
}

fn verify(path: &Path, content: &mut Option<Content>, sums: &mut Sums) -> Result<(), EpochError> {
    let mut decoder = Decoder::new(BufReader::new(open_regular(path)?))?;
    let (head, pages) = (&decoder.head, decoder.page_count());
    let JobIdentity {
        build,
        mpi,
        workers,
        program,
        arguments,
        ..
    } = &head.identity;
    *content = Some(Content {
        lineage: head.key.lineage,
        term: head.key.term,
        generation: head.key.generation,
        epoch: head.key.epoch,
        worker: head.worker,
        workers: *workers,
        program: program.clone(),
        arguments: arguments
            .iter()
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .collect(),
        mpi: mpi.clone(),
        build: *build,
        state: head.state,
        pages,
        runs: head.runs.len(),
    });
    let runs = decoder.head.runs.clone();
    let mut numbers = runs
        .iter()
        .flat_map(|run| run.start.0..run.start.0 + run.pages);
    decoder.read_state()?;
    let mut buffer = vec![0; SECTION_PAGES * PAGE_SIZE];
    let mut left = pages;
    while left > 0 {
        let section = &mut buffer[..left.min(SECTION_PAGES as u64) as usize * PAGE_SIZE];
        decoder.read_section(section)?;
        // `zip` takes from its first iterator before its second. With the numbers first, a number
        // would be lost at the end of each section.
        let pages = section.chunks_exact(PAGE_SIZE).zip(numbers.by_ref());
        pages.for_each(|(page, number)| sums.add(number, page));
        left -= (section.len() / PAGE_SIZE) as u64;
    }
    decoder.finish()
}

/// All files of one checkpoint.
#[derive(Debug, Serialize)]
pub struct Epochs {
    pub lineage: u64,
    pub term: u64,
    pub generation: u64,
    #[serde(serialize_with = "described")]
    pub epoch: Epoch,
    /// True if every worker has an intact file.
    pub is_complete: bool,
    pub files: Vec<EpochFile>,
    /// Pages that intact files of two workers or more have in common.
    sharing: Option<Sharing>,
}

/// Sorts files by checkpoint, the oldest first.
///
/// All files without a readable head are one group, which is the first.
pub fn group(files: Vec<EpochFile>) -> Vec<Epochs> {
    let mut groups: BTreeMap<Option<EpochKey>, Vec<EpochFile>> = BTreeMap::new();
    for file in files {
        let key = file.content.as_ref().map(|content| EpochKey {
            lineage: content.lineage,
            term: content.term,
            generation: content.generation,
            epoch: content.epoch,
        });
        groups.entry(key).or_default().push(file);
    }
    groups
        .into_iter()
        .map(|(key, files)| Epochs::new(key, files))
        .collect()
}

impl Epochs {
    fn new(key: Option<EpochKey>, files: Vec<EpochFile>) -> Self {
        let workers = files
            .iter()
            .find_map(|file| file.content.as_ref().map(|content| content.workers));
        let whole = files.iter().filter(|file| file.damage.is_none());
        // A worker may occur twice, in two directories.
        let known: BTreeMap<Worker, &Sums> = whole
            .filter_map(|file| Some((file.content.as_ref()?.worker, &file.sums)))
            .collect();
        Self {
            sharing: shared_pages::compare(&known),
            lineage: key.map_or(0, |key| key.lineage),
            term: key.map_or(0, |key| key.term),
            generation: key.map_or(0, |key| key.generation),
            epoch: key.map_or(Epoch::NONE, |key| key.epoch),
            is_complete: workers.is_some_and(|workers| known.len() == workers as usize),
            files,
        }
    }

    pub fn problems(&self) -> impl Iterator<Item = String> + '_ {
        let damaged = |file: &EpochFile| {
            Some(format!(
                "{}: {}",
                file.path.display(),
                file.damage.as_ref()?
            ))
        };
        self.files.iter().filter_map(damaged)
    }

    pub fn describe(&self, out: &mut String) {
        let Some(content) = self.files.iter().find_map(|file| file.content.as_ref()) else {
            return;
        };
        let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.lineage);
        let ago = SystemTime::now()
            .duration_since(began)
            .unwrap_or_default()
            .as_secs();
        let _ = writeln!(
            out,
            "Checkpoint {} of {} {} (job begun {ago} s ago, start {}, recoveries: {}): {} of {}, \
             {}{}",
            self.epoch,
            content.program,
            content.arguments.join(" "),
            self.term,
            self.generation,
            self.files.len(),
            count(content.workers, "file", "files"),
            bytes(self.files.iter().map(|file| file.bytes).sum()),
            if self.is_complete {
                ", complete"
            } else {
                ", NOT complete"
            }
        );
        for file in &self.files {
            let Some(content) = &file.content else {
                continue;
            };
            let _ = writeln!(
                out,
                "  worker {:<5} {:>10}  {} in {}, state {}{}",
                content.worker,
                bytes(file.bytes),
                count(content.pages, "page", "pages"),
                count(content.runs, "run", "runs"),
                bytes(content.state),
                if file.damage.is_some() {
                    "  DAMAGED"
                } else {
                    ""
                }
            );
        }
        if let Some(sharing) = &self.sharing {
            sharing.describe(out);
        }
    }
}
