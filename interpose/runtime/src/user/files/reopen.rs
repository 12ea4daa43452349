//! Files that are opened again, by their names or by another descriptor.
#![allow(unsafe_code)]

use super::{Open, failed, proc_names};
use crate::user::UserError;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

/// Gives a descriptor its file.
///
/// # Errors
/// The file cannot be opened or made.
pub fn reopen(fd: i32, file: &Open, all: &BTreeMap<i32, Open>) -> Result<(), UserError> {
    // SAFETY: open(2), dup3(2), close(2) with valid arguments; what the descriptor was before is
    // not the program's.
    unsafe {
        let mode = if file.close_on_exec {
            libc::O_CLOEXEC
        } else {
            0
        };
        if let Some(other) = file.same_as {
            return if libc::dup3(other, fd, mode) < 0 {
                Err(failed(file, "cannot be duplicated"))
            } else {
                Ok(())
            };
        }
        let made = file.nameless.as_ref().map(|it| it.open_or_make(fd, all));
        let path = match made {
            None => proc_names::actual(&file.path),
            Some(Ok(ref made)) => format!("/proc/self/fd/{}", made.as_raw_fd()).into_bytes(),
            Some(Err(_)) => return Err(failed(file, "cannot be made again")),
        };
        let path = CString::new(path).map_err(|_| failed(file, "has an impossible name"))?;
        let mut not = libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL;
        if made.is_some() {
            not |= libc::O_TMPFILE;
        }
        let opened = open_whatever_its_mode(&path, file.flags & !not);
        if opened < 0 {
            return Err(failed(file, "cannot be opened again"));
        }
        if opened != fd {
            let moved = libc::dup3(opened, fd, mode);
            libc::close(opened);
            if moved < 0 {
                return Err(failed(file, "cannot be given its descriptor"));
            }
        }
    }
    Ok(())
}

/// Opens a file, also one that the program has made read-only since.
fn open_whatever_its_mode(path: &CStr, flags: i32) -> i32 {
    // SAFETY: open(2), stat(2), chmod(2) with a valid string and structure.
    unsafe {
        let opened = libc::open(path.as_ptr(), flags);
        let mut about: libc::stat = std::mem::zeroed();
        let is_refused = opened < 0 && *libc::__errno_location() == libc::EACCES;
        if !is_refused || libc::stat(path.as_ptr(), &raw mut about) != 0 {
            return opened;
        }
        libc::chmod(path.as_ptr(), about.st_mode & 0o7777 | 0o600);
        let opened = libc::open(path.as_ptr(), flags);
        let error = *libc::__errno_location();
        libc::chmod(path.as_ptr(), about.st_mode & 0o7777);
        *libc::__errno_location() = error;
        opened
    }
}
