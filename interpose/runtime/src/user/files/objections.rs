//! What is open and cannot be saved: found at a cut, before anything depends on it.

use super::nameless::{self, Named};
use super::streams::Stream;
use super::{Others, is_programs, path_of, pipes, stat};
use crate::user::UserError;
use std::os::unix::ffi::OsStrExt;
use understudy_abi::RUNTIME_FD_BASE;

fn objection(fd: i32, about: &libc::stat) -> Option<String> {
    match about.st_mode & libc::S_IFMT {
        libc::S_IFREG => {
            let has_lost = matches!(
                nameless::other_name(about, path_of(fd).as_os_str().as_bytes()),
                Named::Elsewhere
            );
            has_lost.then(|| {
                "it has another name, which cannot be found; let the program open it by that".into()
            })
        }
        libc::S_IFIFO if is_programs(fd) && Stream::of(fd, about).is_none() => pipes::objection(fd),
        _ => None,
    }
}

/// Refuses if something of these open descriptors cannot be saved. `highest`: a number that the program has been given and that is the
/// layer's.
pub fn check(others: &Others, open: &[i32], highest: Option<i32>) -> Result<(), UserError> {
    if let Some(number) = highest {
        return Err(UserError::Descriptors(format!("descriptor {number}")));
    }
    if open.len() >= RUNTIME_FD_BASE as usize {
        return Err(UserError::Descriptors(format!("{} files", open.len())));
    }
    let found = open.iter().find_map(|&fd| {
        let about = stat(fd).filter(|_| !others.was_inherited(fd))?;
        let why = objection(fd, &about)?;
        let path = path_of(fd).to_string_lossy().into_owned();
        Some(UserError::Descriptor { fd, path, why })
    });
    found.map_or(Ok(()), Err)
}
