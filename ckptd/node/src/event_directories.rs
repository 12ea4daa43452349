//! Directories for event files of `understudy run`.

use crate::file_use::{is_in_use, is_own};
use crate::leftover::LeftoverNames;
use understudy_formats::private_directories::PrivateDirectory;
use understudy_relay::lives;

/// Prefix of the names of directories for event files.
///
/// The process id of `understudy run` follows.
pub const EVENTS_PREFIX: &str = "understudy-run-";

/// Returns the directories of dead `understudy run` processes in which no file is open.
///
/// The job may outlive a killed `understudy run`.
pub fn abandoned_event_directories() -> Option<LeftoverNames> {
    let directory = PrivateDirectory::open_any(&std::env::temp_dir()).ok()?;
    let mut names = directory.names();
    names.retain(|name| {
        let pid = name.to_str().and_then(|name| {
            name.strip_prefix(EVENTS_PREFIX)?
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        });
        let path = directory.path().join(name);
        let files = || std::fs::read_dir(&path).into_iter().flatten().flatten();
        is_own(&path)
            && pid.is_some_and(|pid| !lives(pid))
            && !files().any(|file| is_in_use(&file.path()))
    });
    Some(LeftoverNames {
        directory,
        names,
        kind: "event files of a job that is gone",
    })
}
