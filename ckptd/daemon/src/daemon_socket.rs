//! The daemon's socket: its path, owner and lock.
//!
//! The socket (mode 0600) is in a directory of this user that other users cannot enter (0700). A
//! file beside it is locked while the daemon lives, so that each socket has one daemon. The owner
//! of the lock may remove a socket that an earlier daemon has left.

use crate::StartError;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use understudy_formats::private_directories::{DirectoryRefusal, PrivateDirectory};

/// Returns the path of the socket of this user's daemon.
///
/// The socket is in `$XDG_RUNTIME_DIR/understudy`, or in `/tmp/understudy-UID`.
pub fn default_socket() -> PathBuf {
    let directory =
        match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_absolute()) {
            Some(path) => Path::new(&path).join("understudy"),
            None => PathBuf::from(format!("/tmp/understudy-{}", own_uid())),
        };
    directory.join("ckptd.socket")
}

pub(super) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The socket of this daemon, whose file is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// True if nothing else uses the directory, which then is removed as well.
    ///
    /// `understudy run` has made such a directory, and cannot remove it if it was killed.
    pub(super) has_own_directory: bool,
    _lock: OwnedFd,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if self.has_own_directory
            && let Some(directory) = self.path.parent()
        {
            let _ = fs::remove_file(lock_path(&self.path));
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Returns a function that wraps the error of a system call for a file.
fn failed(action: &str, path: &Path) -> impl FnOnce(std::io::Error) -> StartError {
    StartError::system(format!("cannot {action} {}", path.display()))
}

/// Creates directory, lock and socket; replaces a socket that an earlier daemon has left.
pub(super) fn take_socket(path: &Path) -> Result<Socket, StartError> {
    let path = std::path::absolute(path).map_err(failed("find the directory of", path))?;
    let Some(directory) = path.parent() else {
        return Err(StartError::UnsuitablePath(format!(
            "{} is not a path for a socket",
            path.display()
        )));
    };
    private_directory(directory)?;
    let lock = lock(&path)?;
    remove_stale(&path)?;
    let listener = UnixListener::bind(&path).map_err(failed("create the socket", &path))?;
    let socket = Socket {
        listener,
        path,
        has_own_directory: false,
        _lock: lock,
    };
    fs::set_permissions(&socket.path, Permissions::from_mode(0o600))
        .and_then(|()| socket.listener.set_nonblocking(true))
        .map_err(failed("prepare the socket", &socket.path))?;
    Ok(socket)
}

/// Creates the directory if it is missing.
///
/// A directory that other users could change, or a symbolic link, is refused.
fn private_directory(path: &Path) -> Result<(), StartError> {
    match PrivateDirectory::make(path) {
        Ok(_) => Ok(()),
        Err(DirectoryRefusal::SystemCall { path, source }) => {
            Err(failed("use the directory", &path)(source))
        }
        Err(refused) => Err(StartError::UnsuitablePath(format!(
            "{refused}; or give a --socket in a directory of your own"
        ))),
    }
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn lock(socket: &Path) -> Result<OwnedFd, StartError> {
    let path = lock_path(socket);
    let failed = |error: rustix::io::Errno| failed("lock", &path)(error.into());
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(StartError::Running(socket.display().to_string()));
        }
        Err(error) => return Err(failed(error)),
    }
    // The process id is written for information only.
    let mut lock_file = fs::File::from(file);
    let _ = lock_file
        .set_len(0)
        .and_then(|()| writeln!(lock_file, "{}", std::process::id()));
    Ok(lock_file.into())
}

/// Removes a socket that an earlier daemon has left; refuses any other file.
///
/// The caller owns the lock, so that no living daemon uses the socket.
fn remove_stale(path: &Path) -> Result<(), StartError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("examine", path)(error)),
        Ok(metadata) if metadata.file_type().is_socket() => {
            log::info!("{} was left by an earlier daemon", path.display());
            fs::remove_file(path).map_err(failed("remove the socket of an earlier daemon,", path))
        }
        Ok(_) => Err(StartError::UnsuitablePath(format!(
            "{} exists and is not a socket; remove it, or give another --socket",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::os::unix::net::UnixStream;

    fn refusal(path: &Path) -> String {
        take_socket(path).expect_err("refused").to_string()
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("there").mode() & 0o777
    }

    #[test]
    fn a_socket_is_private_and_has_one_daemon() {
        let top = tempfile::tempdir().expect("a directory");
        let path = top.path().join("made/ckptd.socket");
        let socket = take_socket(&path).expect("taken");
        assert_eq!(
            (mode(path.parent().expect("one")), mode(&path)),
            (0o700, 0o600)
        );
        assert!(refusal(&path).contains("already"));
        UnixStream::connect(&path).expect("there");
        drop(socket);
        assert!(!path.exists());
        take_socket(&path).expect("free again");
    }

    #[test]
    fn a_stale_socket_is_replaced_but_no_other_file() {
        let top = tempfile::tempdir().expect("a directory");
        fs::set_permissions(top.path(), Permissions::from_mode(0o700)).expect("set");
        let path = top.path().join("ckptd.socket");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists());
        drop(take_socket(&path).expect("taken over"));
        fs::write(&path, "precious").expect("written");
        assert!(refusal(&path).contains("not a socket"));
        assert_eq!(fs::read(&path).expect("there"), b"precious");
    }

    #[test]
    fn directories_of_others_are_refused() {
        let top = tempfile::tempdir().expect("a directory");
        let (open, link) = (top.path().join("open"), top.path().join("link"));
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, Permissions::from_mode(0o770)).expect("set");
        assert!(refusal(&open.join("s")).contains("mode 770"));
        fs::set_permissions(&open, Permissions::from_mode(0o700)).expect("set");
        symlink(&open, &link).expect("made");
        assert!(refusal(&link.join("s")).contains("symbolic link"));
        symlink("/etc/passwd", open.join("s.lock")).expect("made");
        assert!(take_socket(&open.join("s")).is_err());
        if own_uid() == 0 {
            fs::remove_file(open.join("s.lock")).expect("removed");
            std::os::unix::fs::chown(&open, Some(65534), None).expect("given away");
            assert!(refusal(&open.join("s")).contains("user 65534"));
        }
    }
}
