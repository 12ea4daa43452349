//! Directory that only one user can access, and files in it.
#![allow(unsafe_code)]

use super::refused::DirectoryRefusal;
use rustix::fs::{AtFlags, FileType, Mode, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Opens a file with openat(2) of libc, close-on-exec.
///
/// The shim library replaces this `openat` in a rank. The shim moves the new descriptor to a number
/// that the program side never uses.
fn open_at(directory: RawFd, name: &OsStr, flags: libc::c_int) -> io::Result<File> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: `name` is a terminated string that outlives the call; openat(2) returns a new
    // descriptor, which has no other owner.
    unsafe {
        match libc::openat(
            directory,
            name.as_ptr(),
            flags | libc::O_CLOEXEC,
            0o600 as libc::c_uint,
        ) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

/// True if a file belongs to this user.
pub fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == geteuid().as_raw()
}

/// Opens a regular file of this user with flags of open(2).
///
/// The call never follows a link, and never waits for the other end of a FIFO. A created file has
/// mode 0600.
///
/// # Errors
/// Fails with errors of open(2), and with `PermissionDenied` if the path names anything but a
/// regular file of this user.
pub fn open_own(path: &Path, flags: libc::c_int) -> io::Result<File> {
    open_own_at(libc::AT_FDCWD, path.as_os_str(), flags)
}

/// Reads a regular file of this user like [`open_own`]; a missing file counts as empty.
///
/// # Errors
/// Fails like [`open_own`], except for a missing file, and with errors of read(2).
pub fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match open_own(path, libc::O_RDONLY) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        file => drop(file?.read_to_end(&mut bytes)?),
    }
    Ok(bytes)
}

/// Opens a regular file of any user for reading, and never waits for a FIFO.
///
/// # Errors
/// Fails with errors of open(2), and with `InvalidInput` if the path names anything but a regular
/// file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_at(
        libc::AT_FDCWD,
        path.as_os_str(),
        libc::O_RDONLY | libc::O_NONBLOCK,
    )?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
}

fn open_own_at(directory: RawFd, name: &OsStr, flags: libc::c_int) -> io::Result<File> {
    let file = open_at(directory, name, flags | libc::O_NOFOLLOW | libc::O_NONBLOCK)?;
    let metadata = file.metadata()?;
    // A file server may map root to another user, so a file that this call has created may have
    // another owner.
    let is_new = flags & libc::O_EXCL != 0;
    if !metadata.is_file() || !(is_new || is_own(&metadata)) {
        let why = "not a regular file of this user";
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// Creates a file (mode 0600) for writing that no other process has open.
///
/// A file of this name is removed first, not truncated.
///
/// # Errors
/// Fails with errors of unlink(2) and open(2).
pub fn create_anew(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    open_own(path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL)
}

/// Open directory; later renames of the directory have no effect on it.
///
/// All public constructors except [`open_any`](Self::open_any) refuse a directory that other users
/// can access.
#[derive(Debug)]
pub struct PrivateDirectory {
    file: File,
    path: PathBuf,
}

impl PrivateDirectory {
    /// Opens a directory of any user, private or not.
    ///
    /// # Errors
    /// Fails with errors of open(2).
    pub fn open_any(path: &Path) -> io::Result<PrivateDirectory> {
        let file = open_at(
            libc::AT_FDCWD,
            path.as_os_str(),
            libc::O_RDONLY | libc::O_DIRECTORY,
        )?;
        Ok(PrivateDirectory {
            file,
            path: path.to_owned(),
        })
    }

    /// Opens a directory that only this user can access; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if other users have access, if the path is a link or not a directory, or if a system
    /// call fails.
    pub fn open(path: &Path) -> Result<Option<PrivateDirectory>, DirectoryRefusal> {
        Self::open_at(libc::AT_FDCWD, path.as_os_str(), path)
    }

    /// Acts like [`open`](Self::open), and creates a missing directory with mode 0700.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open), and with errors of mkdir(2).
    pub fn make(path: &Path) -> Result<PrivateDirectory, DirectoryRefusal> {
        Self::make_at(rustix::fs::CWD, path.as_os_str(), path)
    }

    /// Opens a directory in this directory by its name; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open).
    pub fn open_below(&self, name: &OsStr) -> Result<Option<PrivateDirectory>, DirectoryRefusal> {
        Self::open_at(self.file.as_raw_fd(), name, &self.path.join(name))
    }

    /// Acts like [`open_below`](Self::open_below), and creates a missing directory.
    ///
    /// # Errors
    /// Fails like [`make`](Self::make).
    pub fn make_below(&self, name: &OsStr) -> Result<PrivateDirectory, DirectoryRefusal> {
        Self::make_at(self.file.as_fd(), name, &self.path.join(name))
    }

    fn make_at(
        parent: impl AsFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<PrivateDirectory, DirectoryRefusal> {
        let system = |source| DirectoryRefusal::SystemCall {
            path: path.into(),
            source,
        };
        match mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(system(error.into())),
        }
        let made = Self::open_at(parent.as_fd().as_raw_fd(), name, path)?;
        made.ok_or_else(|| system(ErrorKind::NotFound.into()))
    }

    fn open_at(
        parent: RawFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<PrivateDirectory>, DirectoryRefusal> {
        let system = |source| DirectoryRefusal::SystemCall {
            path: path.into(),
            source,
        };
        // O_PATH needs no permission on the directory, so that its owner can be reported.
        let found = match open_at(parent, name, libc::O_PATH | libc::O_NOFOLLOW) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(system)?,
        };
        let metadata = found.metadata().map_err(system)?;
        if metadata.is_symlink() {
            return Err(DirectoryRefusal::Link(path.into()));
        }
        if !metadata.is_dir() {
            return Err(DirectoryRefusal::NotADirectory(path.into()));
        }
        if !is_own(&metadata) {
            return Err(DirectoryRefusal::WrongOwner {
                path: path.into(),
                uid: metadata.uid(),
            });
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(DirectoryRefusal::AccessibleToOthers {
                path: path.into(),
                mode: metadata.mode() & 0o7777,
            });
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let file = open_at(found.as_raw_fd(), OsStr::new("."), flags).map_err(system)?;
        Ok(Some(PrivateDirectory {
            file,
            path: path.into(),
        }))
    }

    /// Returns the descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the path by which the directory was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names in the directory; empty if the directory cannot be read.
    ///
    /// Ranks must not call this function: it opens a descriptor without the shim library, so the
    /// descriptor may take a number that belongs to the program side.
    pub fn names(&self) -> Vec<OsString> {
        let entries = rustix::fs::Dir::read_from(&self.file)
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()))
            .filter(|name| name != "." && name != "..")
            .collect()
    }

    /// Opens a regular file in the directory like [`open_own`].
    ///
    /// # Errors
    /// Fails like [`open_own`].
    pub fn open_own(&self, name: &OsStr, flags: libc::c_int) -> io::Result<File> {
        open_own_at(self.file.as_raw_fd(), name, flags)
    }

    /// Removes a file, or a directory of this user with all its content.
    ///
    /// A missing name is no error.
    ///
    /// # Errors
    /// Fails with errors of stat(2), open(2), unlink(2) and rmdir(2), and with `PermissionDenied`
    /// for a directory of another user at any depth.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        match self.try_remove(name) {
            Err(Errno::NOENT) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }

    fn try_remove(&self, name: &OsStr) -> Result<(), Errno> {
        let stat = statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return unlinkat(&self.file, name, AtFlags::empty());
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let as_errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let file = open_at(self.file.as_raw_fd(), name, flags).map_err(as_errno)?;
        if !file.metadata().is_ok_and(|metadata| is_own(&metadata)) {
            return Err(Errno::PERM);
        }
        let below = PrivateDirectory {
            file,
            path: self.path.join(name),
        };
        for name in below.names() {
            match below.try_remove(&name) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        unlinkat(&self.file, name, AtFlags::REMOVEDIR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn top() -> tempfile::TempDir {
        tempfile::tempdir().expect("there is room for temporary files")
    }

    fn refusal(path: &Path) -> String {
        PrivateDirectory::make(path)
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn only_directories_of_this_user_alone_are_accepted() {
        let top = top();
        let [made, link, file] = ["made", "link", "file"].map(|name| top.path().join(name));
        assert!(
            PrivateDirectory::open(&made)
                .expect("nothing is in the way")
                .is_none()
        );
        PrivateDirectory::make(&made).expect("made");
        assert_eq!(fs::metadata(&made).expect("there").mode() & 0o777, 0o700);
        symlink(&made, &link).expect("made");
        assert!(refusal(&link).contains("symbolic link"));
        fs::write(&file, "").expect("written");
        assert!(refusal(&file).contains("not a directory"));
        fs::set_permissions(&made, fs::Permissions::from_mode(0o750)).expect("set");
        assert!(refusal(&made).contains("mode 750"));
        if geteuid().is_root() {
            chown(&made, Some(65534), None).expect("given away");
            assert!(refusal(&made).contains("user 65534"));
        }
    }

    #[test]
    fn what_others_may_plant_is_neither_opened_nor_waited_for() {
        let top = top();
        let [fifo, link, precious] = ["fifo", "link", "precious"].map(|name| top.path().join(name));
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        fs::write(&precious, "precious").expect("written");
        symlink(&precious, &link).expect("made");
        for path in [&fifo, &link] {
            for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR | libc::O_CREAT] {
                open_own(path, flags).expect_err("refused");
            }
        }
        let made = create_anew(&link).expect("nothing is in the way");
        assert_eq!(made.metadata().expect("open").mode() & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).expect("there").is_file());
        assert_eq!(fs::read(&precious).expect("there"), b"precious");
    }

    /// An attacker exchanges a directory for a link between its listing and the removal.
    ///
    /// The content of the listed directory is removed; files behind the link stay.
    #[test]
    fn nothing_is_removed_through_a_directory_that_was_exchanged() {
        let top = top();
        let [planted, victim, link] =
            ["planted", "victim", "link"].map(|name| top.path().join(name));
        for directory in [&planted, &victim] {
            fs::create_dir_all(directory.join("x")).expect("made");
            fs::write(directory.join("x/file"), "precious").expect("written");
        }
        symlink(&victim, &link).expect("made");
        let found = PrivateDirectory::open_any(&planted).expect("there");
        let names = found.names();
        renameat_with(CWD, &planted, CWD, &link, RenameFlags::EXCHANGE).expect("exchanged");
        for name in names {
            found.remove_all(&name).expect("removed");
        }
        assert_eq!(fs::read(victim.join("x/file")).expect("there"), b"precious");
        assert!(!link.join("x").exists(), "what was found is still there");

        // At every depth, a directory is removed with its content, but a link to a directory only
        // as a link.
        fs::create_dir_all(link.join("y/deep")).expect("made");
        fs::write(link.join("y/deep/file"), "").expect("made");
        symlink(victim.join("x"), link.join("y/z")).expect("made");
        symlink(victim.join("x"), link.join("w")).expect("made");
        for name in ["y", "w"] {
            found.remove_all(OsStr::new(name)).expect("removed");
        }
        assert!(found.names().is_empty() && victim.join("x/file").exists());
    }
}
