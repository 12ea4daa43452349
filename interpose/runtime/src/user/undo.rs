//! Files and names as they were at a cut.
//!
//! [`super::files`] knows what was open at the cut. What the program has done since to files that it opened and closed
//! again, or to names (rename, unlink, mkdir …), is in an *undo log*: the face tells of each effect before it happens.
//!
//! ```text
//!   note   a call of the program → records: what to do to take it back, and backups of what it destroys
//!   log    the records of a rank, in a file in memory that outlives it
//!   apply  the records of all ranks of a node, undone in the reverse order of time
//! ```
//!
//! A cut begins a new section of the log. A section is needed as long as anyone may go back to its cut: if a rank commits
//! epoch n and dies before all others have, they go back to n − 1.
//!
//! At a failure everybody looks at the logs of all ranks; one process of each node (it holds a lock) undoes them, those
//! of the dead included. Nobody goes on before that: an agreement follows.
#![allow(unsafe_code)]

mod apply;
mod keep;
mod log;
mod note;
#[cfg(test)]
mod tests;

use super::UserError;
use crate::cell::Main;
use crate::{boot, checkpoint, world};
use note::{Call, Recorder};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use understudy_abi::effect;

/// Where logs and small backups are: memory that outlives a process.
const MEMORY: &str = "/dev/shm";

static RECORDER: Main<Option<Recorder>> = Main::new(None);

fn job() -> String {
    boot::job().replace('/', "_")
}

fn log_of(launcher_rank: u32) -> PathBuf {
    Path::new(MEMORY).join(format!("understudy-{}-{launcher_rank}.undo", job()))
}

fn recorder() -> &'static mut Recorder {
    RECORDER.get().get_or_insert_with(|| {
        let rank = world::get().launcher_rank;
        Recorder::new(log_of(rank), Path::new(MEMORY), &job(), rank)
    })
}

fn tell(result: io::Result<()>) {
    if let Err(error) = result {
        ::log::warn!("the log of effects on files cannot be kept ({error})");
    }
}

/// This rank is at the cut of `epoch`: what the program does from here on belongs to it.
pub fn begin(epoch: u64) {
    recorder().begin(epoch);
}

/// `epoch` is committed: nobody goes back further than to the epoch before it.
pub fn commit(epoch: u64) {
    tell(recorder().forget_before(epoch.saturating_sub(1)));
}

/// Undoes what all ranks of this node have done since the cut of `epoch`. All living processes are in the recovery.
pub fn undo(epoch: u64) {
    let world = world::get();
    let undone = undo_all((0..world.worker_count + world.spare_count).map(log_of), epoch);
    if let Err(failed) = undone {
        let error = UserError::File {
            path: failed.path.display().to_string(),
            why: failed.error.to_string(),
        };
        checkpoint::fail("the effects on files since the checkpoint cannot be undone", &error);
    }
    tell(recorder().resume(epoch));
}

fn undo_all(logs: impl Iterator<Item = PathBuf>, epoch: u64) -> Result<(), apply::Failed> {
    let lock = Path::new(MEMORY).join(format!("understudy-{}.undo-lock", job()));
    let _alone = alone(&lock).map_err(|error| apply::Failed {
        path: lock.clone(),
        error,
    })?;
    let open = |path: PathBuf| {
        log::Log::open(&path).unwrap_or_else(|error| {
            ::log::warn!("{} cannot be read ({error})", path.display());
            None
        })
    };
    let mut logs: Vec<log::Log> = logs.filter_map(open).collect();
    let done = apply::undo(&mut logs, epoch);
    let _ = fs::remove_file(&lock);
    done
}

/// Waits until no other process is here. The file is removed by whoever leaves, so it may have to be made again.
fn alone(path: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path)?;
        file.lock()?;
        let inode = file.metadata()?.ino();
        if fs::symlink_metadata(path).is_ok_and(|found| found.ino() == inode) {
            return Ok(file);
        }
    }
}

/// The rank ends in good order, or the job does: nothing will be undone any more.
pub fn release() {
    if let Some(mut recorder) = RECORDER.get().take() {
        tell(recorder.end());
    }
}

/// Removes the log of a process that has died, with its backups.
pub fn discard(launcher_rank: u32) {
    if let Ok(Some(log)) = log::Log::open(&log_of(launcher_rank)) {
        let _ = log.remove();
    }
}

/// Removes the logs of processes that have died, among these ranks of the launcher's world.
pub fn discard_abandoned(ranks: std::ops::Range<u32>) {
    for log in ranks.filter_map(|rank| log::Log::open(&log_of(rank)).ok().flatten()) {
        if log.is_abandoned() {
            let _ = log.remove();
        }
    }
}

/// What [`crate::arch::file_effect`] calls, on the runtime's stack: an effect that is about to happen.
///
/// # Safety
/// The strings must be valid or null.
pub unsafe extern "C" fn file_effect(
    kind: u32,
    directory: c_int,
    path: *const c_char,
    other_directory: c_int,
    other: *const c_char,
    value: i64,
) {
    let Some(recorder) = RECORDER.get() else { return };
    // A child that the program has forked is not protected, though it has all of this.
    if !recorder.is_on() || !world::is_protected() || recorder.process() != std::process::id() {
        return;
    }
    // SAFETY: handed on to the caller.
    let call = unsafe {
        match kind {
            effect::FTRUNCATE => open_file(directory).map(|path| Call::Truncate { path, length: value }),
            effect::RENAME => absolute(directory, path).and_then(|from| {
                Some(Call::Rename {
                    from,
                    to: absolute(other_directory, other)?,
                    flags: value as u32,
                })
            }),
            _ => absolute(directory, path).and_then(|path| call_on(kind, path, value)),
        }
    };
    if let Some(call) = call
        && let Err(error) = recorder.note(&call)
    {
        recorder.warn(call.path(), &error.to_string());
    }
}

fn call_on(kind: u32, path: PathBuf, value: i64) -> Option<Call> {
    let (files, directories) = (value & effect::FILES != 0, value & effect::DIRECTORIES != 0);
    Some(match kind {
        effect::OPEN => Call::Open {
            path: followed(path),
            flags: value as i32,
        },
        effect::REMOVE => Call::Remove {
            path,
            files,
            directories,
        },
        effect::CREATE => Call::Create {
            path,
            directory: directories,
        },
        effect::TRUNCATE => Call::Truncate {
            path: followed(path),
            length: value,
        },
        _ => return None,
    })
}

/// The name of an open file.
fn open_file(fd: c_int) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    is_of_interest(&path).then_some(path)
}

/// Whether a path leads to a file system for files.
fn is_of_interest(path: &Path) -> bool {
    let special = ["/proc", "/sys", "/dev"].iter().any(|top| path.starts_with(top));
    path.is_absolute() && (!special || path.starts_with(MEMORY))
}

/// The name that a call gives, without links but for its last part.
///
/// # Safety
/// `path` must be a valid string or null.
unsafe fn absolute(directory: c_int, path: *const c_char) -> Option<PathBuf> {
    if path.is_null() {
        return None;
    }
    // SAFETY: handed on to the caller.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let full = if path.is_absolute() {
        path.to_owned()
    } else if directory == libc::AT_FDCWD {
        std::env::current_dir().ok()?.join(path)
    } else {
        fs::read_link(format!("/proc/self/fd/{directory}")).ok()?.join(path)
    };
    let found = fs::canonicalize(full.parent()?).ok()?.join(full.file_name()?);
    is_of_interest(&found).then_some(found)
}

/// Where a name leads to, if it is a link, even to a file that does not exist yet.
fn followed(path: PathBuf) -> PathBuf {
    let Ok(target) = fs::read_link(&path) else { return path };
    fs::canonicalize(&path).unwrap_or_else(|_| path.parent().unwrap_or(&path).join(target))
}
