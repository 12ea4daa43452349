//! `understudy clean`: removes what killed jobs have left on this node. Nothing of a living job, nothing of another user.

mod segments;

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, tell, verdict};
use ckptd::relay::{LEDGERS, has_launcher, job_of_name, survey};
use ckptd::report::bytes;
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// An epoch file that nobody has written to for this long is not being written.
const QUIET: Duration = Duration::from_secs(600);

/// Remove what killed jobs have left behind on this node.
///
/// That is: files of the layer and of Open MPI in /dev/shm whose processes are gone, and directories for event files of
/// `understudy run`. In the directories that are named, also epochs whose writing was never completed.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  nothing is left\n  \
    1  something could not be removed; a message says what\n  \
    2  wrong usage\n  \
    3  a directory cannot be read")]
pub struct Arguments {
    /// Directories of the disk level (UNDERSTUDY_DISK).
    dirs: Vec<PathBuf>,
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Something to be removed, and what it is.
struct Remains {
    path: PathBuf,
    what: &'static str,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut all = of_jobs();
        all.extend(segments::abandoned());
        all.extend(event_directories());
        for directory in &self.dirs {
            let torn = torn_epochs(directory)
                .map_err(|error| Failure::with_status(IMPOSSIBLE, format_args!("{}: {error}", directory.display())))?;
            all.extend(torn);
        }
        let (mut freed, mut is_well) = (0, true);
        for Remains { path, what } in &all {
            let size = size(path);
            if let Err(error) = if self.dry_run { Ok(()) } else { remove(path) } {
                tell(format_args!("{}: {error}", path.display()));
                is_well = false;
                continue;
            }
            freed += size;
            print(format!("{} ({what}, {})\n", path.display(), bytes(size)))?;
        }
        let verb = if self.dry_run { "would be freed" } else { "freed" };
        print(format!("{} in {} files {verb}\n", bytes(freed), all.len()))?;
        Ok(verdict(is_well))
    }
}

fn is_own(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
}

/// Ledgers, undo logs and backups in memory of jobs of which no process is left on this node.
fn of_jobs() -> Vec<Remains> {
    let living: BTreeSet<String> = survey(Path::new(LEDGERS))
        .into_iter()
        .filter(|seat| seat.is_taken())
        .map(|seat| seat.job)
        .collect();
    let files = std::fs::read_dir(LEDGERS)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A backup has a dot in front, and a number behind that of the rank.
        let job = job_of_name(name.trim_start_matches('.')).map(|(job, _)| until_number(job));
        is_own(path) && job.is_some_and(|job| !living.contains(job) && !has_launcher(job))
    };
    files
        .filter(is_left)
        .map(|path| Remains {
            path,
            what: "of a job that is gone",
        })
        .collect()
}

/// `prterun-vm-12@1` of `prterun-vm-12@1-3`.
fn until_number(job: &str) -> &str {
    let Some(at) = job.find('@') else { return job };
    let digits = job[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
    &job[..at + 1 + digits]
}

/// Directories of `understudy run`, which have its process id in their names.
fn event_directories() -> Vec<Remains> {
    let names = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix(crate::run::EVENTS_PREFIX)
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        is_own(path) && pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    names
        .map(|entry| entry.path())
        .filter(is_left)
        .map(|path| Remains {
            path,
            what: "event files of a job that is gone",
        })
        .collect()
}

/// Epochs that were being written when their worker died.
fn torn_epochs(directory: &Path) -> io::Result<Vec<Remains>> {
    let mut torn = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_torn = name.starts_with("understudy-") && name.ends_with(".epoch.part");
        let changed = entry.metadata()?.modified()?;
        // The writer may be on another node.
        let is_quiet = SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|since| since >= QUIET);
        if is_torn && is_quiet && is_own(&entry.path()) && !segments::is_in_use(&entry.path()) {
            torn.push(Remains {
                path: entry.path(),
                what: "an epoch that was never completed",
            });
        }
    }
    Ok(torn)
}

fn size(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.blocks() * 512;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}

/// Somebody else may have removed it meanwhile.
fn remove(path: &Path) -> io::Result<()> {
    let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_directory {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_from_what_follows_it() {
        assert_eq!(until_number("prterun-vm-12@1-3"), "prterun-vm-12@1");
        assert_eq!(until_number("prterun-vm-12@1"), "prterun-vm-12@1");
    }
}
