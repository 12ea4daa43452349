//! `understudy clean`: removes the leftovers of killed jobs on this node.
//!
//! Files of living jobs and of other users are kept.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, verdict};

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use understudy_formats::epochs::epoch_files::{PARTIAL_SUFFIX, PREFIX};
use understudy_formats::private_directories::PrivateDirectory;
use understudy_launch::print_message;
use understudy_node::{Leftover, LeftoverNames, is_in_use, is_own, leftovers_of_node};
use understudy_report::{bytes, count};

/// Time without a change after which an incomplete checkpoint file is considered abandoned.
const UNCHANGED_TIME: Duration = Duration::from_secs(600);

/// Remove what killed jobs have left behind on this node.
///
/// Leftovers are files of understudy and of Open MPI in /dev/shm whose processes have exited, and
/// directories for event files of `understudy run`. Incomplete checkpoints are also removed in the
/// directories that are named. Do not name the directory of a running job.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  nothing is left\n  \
    1  something could not be removed; a message says what\n  \
    2  wrong usage\n  \
    3  a directory cannot be read")]
pub struct Arguments {
    /// Directories of the disk level (UNDERSTUDY_DISK).
    dirs: Vec<PathBuf>,
    /// Print what would be removed, and remove nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut all = leftovers_of_node();
        for directory in &self.dirs {
            let torn = torn_epochs(directory).map_err(|error| {
                let directory = directory.display();
                let why = format!("the directory {directory} cannot be read: {error}");
                Failure::with_status(IMPOSSIBLE, why)
            })?;
            all.extend(torn);
        }
        let (mut freed, mut removed, mut is_well) = (0, 0, true);
        for leftover in &all {
            let (path, kind) = (leftover.path(), leftover.kind);
            let size = size(&path);
            if let Err(error) = if self.dry_run {
                Ok(())
            } else {
                leftover.remove()
            } {
                print_message(format_args!("{} is not removed: {error}", path.display()));
                is_well = false;
                continue;
            }
            freed += size;
            removed += 1;
            print(format!("{} ({kind}, {})\n", path.display(), bytes(size)))?;
        }
        let verb = if self.dry_run {
            "would be freed"
        } else {
            "freed"
        };
        let files = count(removed, "file", "files");
        print(format!("{} in {files} {verb}\n", bytes(freed)))?;
        Ok(verdict(is_well))
    }
}

/// Returns incomplete checkpoint files and static-data files that seem to be abandoned.
fn torn_epochs(directory: &Path) -> io::Result<Vec<Leftover>> {
    let directory = PrivateDirectory::open_any(directory)?;
    let mut torn = Vec::new();
    for name in directory.names() {
        let text = name.to_string_lossy();
        let is_torn = text.starts_with(PREFIX)
            && text.ends_with(PARTIAL_SUFFIX)
            && [".epoch.", ".static."]
                .iter()
                .any(|kind| text.contains(kind));
        let path = directory.path().join(&name);
        let changed = match path.symlink_metadata() {
            Ok(metadata) => metadata.modified()?,
            // The writer has renamed or removed the file since the directory was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // The writer may be on another node, where its process is not visible.
        let is_quiet = SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|since| since >= UNCHANGED_TIME);
        if is_torn && is_quiet && is_own(&path) && !is_in_use(&path) {
            torn.push(name);
        }
    }
    Ok(Leftover::all(LeftoverNames {
        directory,
        names: torn,
        kind: "a checkpoint that was never completed",
    }))
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
