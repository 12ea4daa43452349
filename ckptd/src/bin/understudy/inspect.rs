//! `understudy inspect`: content and integrity of files that a job has written.

mod epochs;
mod event_files;
mod shared_pages;
mod tables;

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, print_json, verdict};
use epochs::{EpochFile, Epochs};
use event_files::EventFiles;
use serde::Serialize;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use understudy_formats::epochs::epoch_files::PARTIAL_SUFFIX;
use understudy_formats::events::rank_of_file_name;
use understudy_formats::private_directories::open_regular;

/// Show the content of event files and of checkpoints on disk, and verify their checksums.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  all is whole\n  \
    1  something is damaged, or of another version; the output says what\n  \
    2  wrong usage\n  \
    3  there is nothing that a job has written, or it cannot be read")]
pub struct Arguments {
    /// Directories, or single files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print one JSON object; sizes are in bytes, times in nanoseconds.
    #[arg(long)]
    json: bool,
}

/// Content of all files, and their problems.
#[derive(Debug, Serialize)]
struct Findings {
    epochs: Vec<Epochs>,
    /// Checkpoint files that are incomplete, or still being written.
    torn: Vec<PathBuf>,
    events: Vec<EventFiles>,
    /// Texts about damage.
    problems: Vec<String>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let (mut files, mut torn, mut event_directories) = (Vec::new(), Vec::new(), Vec::new());
        for path in &self.paths {
            let cannot = |error: io::Error| {
                let why = format!("{} cannot be read: {error}", path.display());
                Failure::with_status(IMPOSSIBLE, why)
            };
            let is_directory = path.metadata().map_err(cannot)?.is_dir();
            for file in if is_directory {
                listing(path).map_err(cannot)?
            } else {
                vec![path.clone()]
            } {
                match kind(&file, !is_directory).map_err(cannot)? {
                    FileKind::Epoch => files.push(file),
                    FileKind::Torn => torn.push(file),
                    FileKind::Events => event_directories.push(file),
                    FileKind::Other => {}
                }
            }
        }
        if files.is_empty() && torn.is_empty() && event_directories.is_empty() {
            return Err(Failure::with_status(
                IMPOSSIBLE,
                "there are neither event files (rank-N.events) nor checkpoints \
                 (understudy-….epoch). Give the directory of UNDERSTUDY_EVENTS or \
                 UNDERSTUDY_DISK.",
            ));
        }
        let epochs = epochs::group(files.iter().map(|file| EpochFile::read(file)).collect());
        let events = event_files::read(&event_directories);
        let mut problems: Vec<String> = epochs.iter().flat_map(Epochs::problems).collect();
        problems.extend(events.iter().flat_map(|events| events.problems.clone()));
        let findings = Findings {
            epochs,
            torn,
            events,
            problems,
        };
        if self.json {
            print_json(&findings)?;
        } else {
            print(text(&findings))?;
        }
        Ok(verdict(findings.problems.is_empty()))
    }
}

enum FileKind {
    Epoch,
    Torn,
    Events,
    Other,
}

/// Returns the kind of a file, by its name or its first bytes.
///
/// The first bytes are read only of a file that the user has named (`by_content`), and then take
/// precedence, except over the name of an incomplete checkpoint.
fn kind(path: &Path, by_content: bool) -> io::Result<FileKind> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut magic = Vec::new();
    if by_content {
        open_regular(path)?.take(8).read_to_end(&mut magic)?;
    }
    Ok(match &magic[..] {
        _ if name.ends_with(&format!(".epoch{PARTIAL_SUFFIX}")) => FileKind::Torn,
        b"USTDYEPO" => FileKind::Epoch,
        b"USTDYEVT" => FileKind::Events,
        _ if name.starts_with("understudy-") && name.ends_with(".epoch") => FileKind::Epoch,
        _ if rank_of_file_name(&name).is_some() => FileKind::Events,
        _ => FileKind::Other,
    })
}

fn listing(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

fn text(findings: &Findings) -> String {
    let mut out = String::new();
    findings
        .epochs
        .iter()
        .for_each(|epochs| epochs.describe(&mut out));
    for torn in &findings.torn {
        out += &format!(
            "{}: its writing was never completed (`understudy clean DIR` removes it)\n",
            torn.display()
        );
    }
    findings
        .events
        .iter()
        .for_each(|events| events.describe(&mut out));
    for problem in &findings.problems {
        out += &format!("PROBLEM: {problem}\n");
    }
    out
}
