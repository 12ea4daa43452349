//! From memory to disk: an epoch that is whole in one directory, in another one.
//!
//! Epochs that are *held* (`UNDERSTUDY_DISK_HOLD`) lie in memory that outlives their processes, in the user's directory there
//! ([`private`]), one for each directory of a disk level ([`held`]). From there they are copied to that one, by the daemon or by who
//! has written them.

use super::catalogue::{COPY, Name, PART};
use crate::private::{self, Directory};
use rustix::fs::{FlockOperation, flock};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Where, in the user's directory in memory, the epochs of all its disk levels are held.
const HELD: &str = "held";
/// The file that says for which directory something is held.
const OF: &str = "directory";
/// Longest path in it, in bytes (PATH_MAX of limits.h).
const LONGEST: u64 = 4096;
/// Bytes between two looks at whether it is to be given up.
const PIECE: usize = 4 << 20;

/// Where the epochs of all disk levels of this user are held.
pub fn root() -> PathBuf {
    private::in_memory().join(HELD)
}

fn name_of(directory: &Path) -> String {
    format!("{:016x}", xxh3_64(directory.as_os_str().as_bytes()))
}

/// Where the epochs of a disk level are held.
pub fn held(directory: &Path) -> PathBuf {
    root().join(name_of(directory))
}

/// Makes that directory.
///
/// # Errors
/// If a directory on the way there is not this user's alone; those of the file system.
pub fn make_held(directory: &Path) -> io::Result<PathBuf> {
    let root = private::make_in_memory()?.make_below(OsStr::new(HELD))?;
    let place = root.make_below(OsStr::new(&name_of(directory)))?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    let mut of = place.open_own(OsStr::new(OF), flags)?;
    of.write_all(directory.as_os_str().as_bytes())?;
    Ok(place.path().to_owned())
}

/// Removes a directory in which nothing is held any more.
pub fn remove_if_empty(place: &Path) {
    let has_epochs = |entry: std::fs::DirEntry| entry.file_name() != OF;
    if !std::fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .any(has_epochs)
    {
        let _ = std::fs::remove_file(place.join(OF));
        let _ = std::fs::remove_dir(place);
        let _ = std::fs::remove_dir(root());
    }
}

fn open_root() -> Option<Directory> {
    Directory::open(&private::in_memory())
        .ok()??
        .below(OsStr::new(HELD))
        .ok()?
}

/// What is held for disk levels whose directories are gone: names in the directory of all that is held.
pub fn orphans() -> Option<(Directory, Vec<OsString>)> {
    let root = open_root()?;
    let is_orphan = |name: &OsString| {
        let of = || {
            let place = root.below(name).ok()??;
            let mut of = Vec::new();
            let file = place.open_own(OsStr::new(OF), libc::O_RDONLY).ok()?;
            file.take(LONGEST).read_to_end(&mut of).ok()?;
            Some(PathBuf::from(OsString::from_vec(of)))
        };
        of().is_some_and(|of| !of.exists())
    };
    let names = root.names().into_iter().filter(is_orphan).collect();
    Some((root, names))
}

/// Epochs that are held for a disk level and are whole on its disk, too: names in the directory where they are held.
pub fn copied(directory: &Path) -> Option<(Directory, Vec<OsString>)> {
    let place = open_root()?.below(OsStr::new(&name_of(directory))).ok()??;
    let is_copied = |name: &OsString| {
        let is_epoch = name.to_str().and_then(Name::parse).is_some();
        let held = place
            .open_own(name, libc::O_RDONLY)
            .and_then(|file| file.metadata());
        let on_disk = std::fs::metadata(directory.join(name));
        is_epoch
            && matches!((held, on_disk), (Ok(held), Ok(on_disk)) if held.len() == on_disk.len())
    };
    let names = place.names().into_iter().filter(is_copied).collect();
    Some((place, names))
}

/// The name under which [`copy`] writes; another process may be copying the same file.
fn part_of(to: &Path) -> PathBuf {
    let mut part = to.as_os_str().to_owned();
    part.push(format!("{COPY}{}{PART}", std::process::id()));
    part.into()
}

/// Whether a file that [`copy`] writes is being written.
pub fn is_being_written(part: &Path) -> bool {
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options.open(part).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
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
    let (mut source, mut length) = (private::open_own(from, libc::O_RDONLY)?, 0);
    let mut copy = private::create_anew(part)?;
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
        assert_eq!(
            std::fs::read_dir(directory.path()).expect("there").count(),
            1
        );
    }
}
