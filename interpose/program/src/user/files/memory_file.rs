//! Files of memfd_create(2): their names and seals.
#![allow(unsafe_code)]

use crate::user::open_descriptors::path_of;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use understudy_image::vmas::REMOVED;

/// Prefix of the kernel's names of files in memory.
const PREFIX: &[u8] = b"/memfd:";

/// True for the kernel's name of a file in memory.
pub fn is_memory_file_name(path: &[u8]) -> bool {
    path.starts_with(PREFIX)
}

/// Returns the seals of a file in memory (F_GET_SEALS of fcntl(2)); zero for other files.
pub fn seals(fd: i32) -> i32 {
    if !is_memory_file_name(path_of(fd).as_os_str().as_bytes()) {
        return 0;
    }
    // SAFETY: fcntl(2) that only queries.
    unsafe { libc::fcntl(fd, libc::F_GET_SEALS) }.max(0)
}

/// Adds the missing seals.
///
/// # Errors
/// Fails with the errors of fcntl(2).
pub fn seal(fd: i32, seals: i32) -> io::Result<()> {
    let missing = seals & !self::seals(fd);
    // SAFETY: fcntl(2) with F_ADD_SEALS accesses no memory.
    if missing != 0 && unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, missing) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Creates an empty file that can be sealed.
///
/// The file's name is taken from the kernel's name `path`.
///
/// # Errors
/// Fails with the errors of memfd_create(2).
pub fn create(path: &[u8]) -> io::Result<File> {
    let name = path.strip_prefix(PREFIX).unwrap_or(b"scratch");
    let name = name.strip_suffix(REMOVED).unwrap_or(name);
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: memfd_create(2), whose new descriptor is used here only.
    unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let fd = libc::memfd_create(name.as_ptr(), flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn names_and_seals_are_applied() {
        let file = create(b"/memfd:a name (deleted)").unwrap();
        let fd = file.as_raw_fd();
        let path = path_of(fd);
        assert_eq!(path.as_os_str(), "/memfd:a name (deleted)");
        assert_eq!(seals(fd), 0);
        seal(fd, libc::F_SEAL_GROW | libc::F_SEAL_SEAL).unwrap();
        assert_eq!(seals(fd), libc::F_SEAL_GROW | libc::F_SEAL_SEAL);
        assert!(seal(fd, libc::F_SEAL_WRITE).is_err());
        assert_eq!(seals(std::io::stdin().as_raw_fd()), 0);
    }
}
