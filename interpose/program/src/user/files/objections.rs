//! Detection of descriptors that cannot be restored.
//!
//! The detection takes place at a cut, before a checkpoint depends on the descriptors.

use super::former_name::{self, OtherName};
use super::open_files::OpenFileState;
use super::sockets::LocalSockets;
use super::streams::Stream;
use super::{kinds, pipes, posix_queues, sockets};
use crate::kernel_state::{self, DESCRIPTORS};
use crate::user::UserError;
use crate::user::input::Input;
use crate::user::open_descriptors::{descriptors, path_of, stat};
use std::os::unix::ffi::OsStrExt;
use understudy_abi::RUNTIME_FD_BASE;

/// Returns the reason why a descriptor of a restorable kind cannot be restored.
fn objection(fd: i32, kind: &str, file_stat: &libc::stat, local: &LocalSockets) -> Option<String> {
    match kind {
        "file" | "removed file" => {
            let path = path_of(fd);
            let has_other_name = matches!(
                former_name::other_name(file_stat, path.as_os_str().as_bytes()),
                OtherName::Elsewhere
            );
            has_other_name.then(|| {
                "it has another name, which cannot be found; let the program open it by that".into()
            })
        }
        "pipe" => pipes::objection(fd),
        "mqueue" => posix_queues::objection(fd, file_stat),
        socket if socket.starts_with("socket:") => sockets::objection(fd, file_stat.st_ino, local),
        _ => None,
    }
}

/// Refuses descriptors whose numbers are reserved for understudy.
///
/// `highest` is the highest reserved number that the program has received; `None` if it has
/// received no reserved number.
pub fn check_numbers(open: &[i32], highest: Option<i32>) -> Result<(), UserError> {
    if let Some(number) = highest {
        return Err(UserError::Descriptors(format!("descriptor {number}")));
    }
    if open.len() >= RUNTIME_FD_BASE as usize {
        return Err(UserError::Descriptors(format!("{} files", open.len())));
    }
    Ok(())
}

/// Refuses a descriptor of the program that cannot be restored.
pub fn check_kinds(files: &OpenFileState, input: &Input) -> Result<(), UserError> {
    let file_stat = |fd| Some((fd, stat(fd)?));
    let all: Vec<(i32, libc::stat)> = descriptors().into_iter().filter_map(file_stat).collect();
    let is_programs = |(fd, file_stat): &&(i32, libc::stat)| {
        files.is_programs(*fd, file_stat)
            && !files.is_inherited(*fd)
            && !input.is_relayed(file_stat)
            && Stream::from_fd(*fd, file_stat).is_none()
    };
    let own: Vec<(i32, libc::stat)> = all.iter().filter(is_programs).copied().collect();
    let numbers: Vec<i32> = own.iter().map(|(fd, _)| *fd).collect();
    let local = LocalSockets::among(&numbers);
    let kinds = kinds::kinds_of(&own, &local);
    let found = own.iter().find_map(|(fd, file_stat)| {
        let kind = &kinds[fd];
        let why = kernel_state::refusal(DESCRIPTORS, kind).map(Into::into);
        let why = why.or_else(|| objection(*fd, kind, file_stat, &local))?;
        let path = path_of(*fd).to_string_lossy().into_owned();
        Some(UserError::Descriptor { fd: *fd, path, why })
    });
    found.map_or(Ok(()), Err)
}
