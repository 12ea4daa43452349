//! From memory to disk: an epoch that is whole in one directory, in another one.
//!
//! Epochs that are *held* (`UNDERSTUDY_DISK_HOLD`) lie in memory that outlives their processes, in a directory of the user's
//! for each directory of a disk level ([`held`]). From there they are copied to that one, by the daemon or by who has written them.

use super::catalogue::{COPY, Name, PART};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Memory that outlives a process.
const MEMORY: &str = "/dev/shm";
/// The file that says for which directory something is held.
const OF: &str = "directory";
/// Bytes between two looks at whether it is to be given up.
const PIECE: usize = 4 << 20;

/// Where the epochs of all disk levels of this user are held.
pub fn root() -> PathBuf {
    Path::new(MEMORY).join(format!("understudy-held-{}", geteuid().as_raw()))
}

/// Where the epochs of a disk level are held.
pub fn held(directory: &Path) -> PathBuf {
    root().join(format!("{:016x}", xxh3_64(directory.as_os_str().as_bytes())))
}

/// Makes that directory, with mode 0700; refuses one that is not the user's own.
pub fn make_held(directory: &Path) -> io::Result<PathBuf> {
    let place = held(directory);
    DirBuilder::new().mode(0o700).recursive(true).create(&place)?;
    for path in [root(), place.clone()] {
        let about = std::fs::symlink_metadata(&path)?;
        if !about.is_dir() || about.uid() != geteuid().as_raw() || about.mode() & 0o077 != 0 {
            let why = format!("{} is not a directory of this user alone (mode 0700)", path.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
    }
    std::fs::write(place.join(OF), directory.as_os_str().as_bytes())?;
    Ok(place)
}

/// Removes a directory in which nothing is held any more.
pub fn remove_if_empty(place: &Path) {
    let has_epochs = |entry: std::fs::DirEntry| entry.file_name() != OF;
    if !std::fs::read_dir(place).into_iter().flatten().flatten().any(has_epochs) {
        let _ = std::fs::remove_file(place.join(OF));
        let _ = std::fs::remove_dir(place);
        let _ = std::fs::remove_dir(root());
    }
}

/// What is held for disk levels whose directories are gone.
pub fn orphans() -> Vec<PathBuf> {
    let places = std::fs::read_dir(root()).into_iter().flatten().flatten();
    let is_orphan = |place: &PathBuf| {
        let of = std::fs::read(place.join(OF)).map(|bytes| PathBuf::from(OsString::from_vec(bytes)));
        of.is_ok_and(|of| !of.exists())
    };
    places.map(|entry| entry.path()).filter(is_orphan).collect()
}

/// Epochs that are held for a disk level and are whole on its disk, too.
pub fn copied(directory: &Path) -> Vec<PathBuf> {
    let held = std::fs::read_dir(held(directory)).into_iter().flatten().flatten();
    let is_copied = |path: &PathBuf| {
        let length = |path: &Path| std::fs::metadata(path).map(|about| about.len()).ok();
        let name = path.file_name().unwrap_or_default();
        let is_epoch = name.to_str().and_then(Name::parse).is_some();
        is_epoch && length(path).is_some() && length(path) == length(&directory.join(name))
    };
    held.map(|entry| entry.path()).filter(is_copied).collect()
}

/// The name under which [`copy`] writes; another process may be copying the same file.
fn part_of(to: &Path) -> PathBuf {
    let mut part = to.as_os_str().to_owned();
    part.push(format!("{COPY}{}{PART}", std::process::id()));
    part.into()
}

/// Whether a file that [`copy`] writes is being written.
pub fn is_being_written(part: &Path) -> bool {
    File::open(part)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK))
}

/// Copies a file, which is whole on the disk when it appears under its name; its length. When `from` goes away meanwhile, nobody
/// wants the copy any more, and there is none.
///
/// # Errors
/// Those of the file system; `Interrupted` if it was given up.
pub fn copy(from: &Path, to: &Path, give_up: &AtomicBool) -> io::Result<u64> {
    let part = part_of(to);
    let done = copy_to(from, &part, give_up).and_then(|length| {
        if !from.exists() || give_up.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        std::fs::rename(&part, to)?;
        File::open(to.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        Ok(length)
    });
    if done.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    done
}

fn copy_to(from: &Path, part: &Path, give_up: &AtomicBool) -> io::Result<u64> {
    let (mut source, mut length) = (File::open(from)?, 0);
    let mut copy = File::create(part)?;
    flock(&copy, FlockOperation::NonBlockingLockExclusive)?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = source.read(&mut piece)?;
        if read == 0 {
            break;
        }
        copy.write_all(&piece[..read])?;
        length += read as u64;
        if give_up.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
    }
    copy.sync_all()?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_or_not_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let (from, to) = (directory.path().join("held"), directory.path().join("disk"));
        let content: Vec<u8> = (0..PIECE * 2 + 17).map(|at| (at % 251) as u8).collect();
        std::fs::write(&from, &content).expect("written");
        let on = AtomicBool::new(false);
        assert_eq!(copy(&from, &to, &on).expect("copied"), content.len() as u64);
        assert_eq!(std::fs::read(&to).expect("there"), content);
        std::fs::remove_file(&to).expect("removed");
        let given_up = copy(&from, &to, &AtomicBool::new(true)).expect_err("given up");
        assert_eq!(given_up.kind(), ErrorKind::Interrupted);
        let missing = copy(&directory.path().join("none"), &to, &on).expect_err("nothing to copy");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 1);
    }
}
