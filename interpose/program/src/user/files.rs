//! Open files of the program.
//!
//! A rollback gives every regular file the size and offset that it had at the cut, so that the
//! program writes the data after the cut a second time, at the same offsets. A replacement opens
//! files (without truncation), directories and devices by their names. It creates files without a
//! name ([`nameless`]), and pipes, sockets and similar objects that only the failed process used
//! ([`special`]). Other pipes and sockets are lost; a message reports them.
#![allow(unsafe_code)]

mod diagnosis;
mod file_locks;
pub(super) mod former_name;
mod inherited;
mod kinds;
mod memory_file;
mod missing_specials;
mod nameless;
mod objections;
mod open_file;
pub(super) mod open_files;
mod pipes;
mod posix_queues;
mod proc_names;
mod reopen;
mod sockets;
mod special;
mod streams;

use super::UserError;
use super::open_descriptors::{descriptors, path_of, stat};
use crate::shim;
use crate::user::program_runtime::Runtime;
pub use former_name::{last_name_of, name_of};
use inherited::Inherited;
use open_file::OpenFile;
pub use open_files::OpenFilesAtCut;
use special::Special;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Weak};
use streams::Stream;
use understudy_abi::RUNTIME_FD_BASE;
use understudy_catalogue::message;

/// Records the descriptors that are open before the program runs.
pub fn record_inherited(rt: &Runtime) {
    let _right = shim::acquire_descriptor_right();
    let open = descriptors();
    rt.files
        .inherited
        .set(open.into_iter().filter_map(Inherited::from_fd).collect());
}

/// Refuses descriptors from [`RUNTIME_FD_BASE`] on.
///
/// `highest` is the highest reserved number that the program has received; `None` if it has
/// received no reserved number.
pub fn check(highest: Option<i32>) -> Result<(), UserError> {
    // SAFETY: fcntl(2) that only queries.
    let may_be_full = unsafe { libc::fcntl(RUNTIME_FD_BASE - 1, libc::F_GETFD) } >= 0;
    if highest.is_none() && !may_be_full {
        return Ok(());
    }
    let _right = shim::acquire_descriptor_right();
    objections::check_numbers(&descriptors(), highest)
}

/// Refuses an open object that cannot be restored.
///
/// All threads of the program must be stopped.
pub(super) fn check_kinds(rt: &Runtime) -> Result<(), UserError> {
    let _right = shim::acquire_descriptor_right();
    objections::check_kinds(&rt.files, &rt.input.borrow())
}

/// Records the open files while all processes are stopped at a cut.
///
/// Files that several processes have open may grow as soon as one process resumes.
pub fn record_at_cut(rt: &Runtime) {
    rt.files.at_cut.set(Some(read_open_files(rt)));
}

/// Returns the open files that [`record_at_cut`] has recorded.
///
/// Without a record, the current open files are returned.
pub fn capture(rt: &Runtime) -> OpenFilesAtCut {
    rt.files
        .at_cut
        .take()
        .unwrap_or_else(|| read_open_files(rt))
}

/// Returns all descriptors of the program, with the locks and the content that are saved.
fn read_open_files(rt: &Runtime) -> OpenFilesAtCut {
    let mut saved = open_now(rt);
    saved.specials = Special::among(saved.others.keys());
    let descriptions = saved
        .files
        .iter()
        .filter(|(_, file)| file.same_as.is_none());
    saved.locks = descriptions
        .map(|(&fd, _)| (fd, file_locks::locks_of(fd)))
        .collect();
    saved.locks.retain(|_, locks| !locks.is_empty());
    open_file::keep_nameless(&mut saved.files, &rt.files.has_warned);
    saved
}

/// Returns the descriptors of the program, without locks and content.
///
/// Relayed input is left out, and so are pipes, sockets and similar objects of the launcher.
fn open_now(rt: &Runtime) -> OpenFilesAtCut {
    let _right = shim::acquire_descriptor_right();
    let mut saved = OpenFilesAtCut::default();
    let mut regular: Vec<i32> = Vec::new();
    let open = descriptors();
    let is_closed = |fd: &i32| !open.contains(fd);
    saved.closed = (0..=libc::STDERR_FILENO).filter(is_closed).collect();
    for fd in open {
        let Some(file_stat) = stat(fd) else { continue };
        if rt.input.borrow().is_relayed(&file_stat) {
            continue;
        }
        let is_programs = rt.files.is_programs(fd, &file_stat);
        if let Some(stream) = Stream::from_fd(fd, &file_stat) {
            saved.streams.insert(fd, stream);
        } else if let Some(file) = OpenFile::from_fd(fd, &file_stat, is_programs, &regular) {
            saved.files.insert(fd, file);
            regular.push(fd);
        } else if is_programs && !rt.files.is_inherited(fd) {
            let name = match sockets::is_of_service(fd) {
                true => sockets::SERVICE.to_vec(),
                false => path_of(fd).as_os_str().as_bytes().to_vec(),
            };
            saved.others.insert(fd, name);
        }
    }
    saved
}

/// True for the path of an accelerator whose driver keeps state in the kernel.
///
/// The devices are those of NVIDIA and AMD (KFD), and DRM's render nodes.
pub(super) fn is_device(path: &[u8]) -> bool {
    let kinds: [&[u8]; 3] = [b"/dev/nvidia", b"/dev/kfd", b"/dev/dri/renderD"];
    kinds.iter().any(|kind| path.starts_with(kind))
}

/// Returns the open devices of accelerators.
///
/// Drivers keep devices open as long as the program uses them.
pub(super) fn accelerators() -> Vec<String> {
    let _right = shim::acquire_descriptor_right();
    let is_special =
        |fd: &i32| stat(*fd).is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFCHR);
    let paths = descriptors().into_iter().filter(is_special).map(path_of);
    let devices = paths.filter(|path| is_device(path.as_os_str().as_bytes()));
    devices
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

/// Returns the name of the program's pipe, socket or similar object with the lowest descriptor.
///
/// Objects that could be restored in another process are included.
pub(super) fn first_unrestorable(rt: &Runtime) -> Option<String> {
    let first = open_now(rt).others.into_values().next();
    first.map(|name| String::from_utf8_lossy(&name).into_owned())
}

/// Records a file that the runtime has opened for the program.
pub fn add_runtime_file(rt: &Runtime, file: &Arc<File>) {
    let mut all = rt.files.of_runtime.borrow_mut();
    all.retain(|file| file.strong_count() > 0);
    all.push(Arc::downgrade(file));
}

/// Returns the regular files that the program may be writing, opened a second time.
///
/// The new descriptors only name the files (O_PATH). Closing a descriptor that can be read or
/// written would release the program's record locks (fcntl(2)).
pub fn written(rt: &Runtime) -> Vec<File> {
    let opened_by_runtime = rt.files.of_runtime.borrow();
    let opened_by_runtime: Vec<Arc<File>> =
        opened_by_runtime.iter().filter_map(Weak::upgrade).collect();
    let saved = open_now(rt);
    let is_written = |(fd, file): &(&i32, &OpenFile)| {
        file.same_as.is_none() && file.is_writable() && former_name::is_regular(**fd)
    };
    let programs = saved.files.iter().filter(is_written).map(|(&fd, _)| fd);
    programs
        .chain(opened_by_runtime.iter().map(|file| file.as_raw_fd()))
        .filter_map(|fd| former_name::path_only(fd).ok())
        .collect()
}

/// Gives the program the open files of the cut.
///
/// `is_survivor` is true in a process that rolls back.
pub fn restore(rt: &Runtime, saved: &OpenFilesAtCut, is_survivor: bool) -> Result<(), UserError> {
    let _right = shim::acquire_descriptor_right();
    let now = open_now(rt);
    restore_streams(saved, &now);
    let is_new = |fd: &&i32| {
        !saved.files.contains_key(fd)
            && !saved.streams.contains_key(fd)
            && !saved.others.contains_key(fd)
    };
    for &fd in now.files.keys().chain(now.others.keys()).filter(is_new) {
        sockets::abandon(fd);
    }
    for (&fd, file) in &saved.files {
        let is_same_file = |open: &OpenFile| {
            file.nameless.as_ref().map_or_else(
                || file.is_open_as(open, is_survivor),
                |nameless| nameless.is_open_at(fd),
            )
        };
        let is_unchanged = now.files.get(&fd).is_some_and(|open| {
            is_same_file(open) && open.same_as == file.same_as && open.flags == file.flags
        });
        if !is_unchanged {
            reopen::reopen(fd, file, &saved.files)?;
        }
        if file.same_as.is_none() {
            rewind(fd, file)?;
        }
    }
    for fd in saved.files.keys() {
        file_locks::release(*fd, saved.locks.get(fd).map_or(&[], Vec::as_slice));
    }
    rt.files.locks.set(saved.locks.clone());
    restore_specials(saved, &now)
}

/// Restores pipes, eventfds, sockets and similar objects.
fn restore_specials(saved: &OpenFilesAtCut, now: &OpenFilesAtCut) -> Result<(), UserError> {
    let current = Special::among(now.others.keys());
    let missing = missing_specials::missing(&saved.specials, &current);
    let created = missing_specials::create_missing(&saved.specials, &missing).map_err(|lost| {
        UserError::File {
            path: format!("its socket at {} (descriptor {})", lost.address, lost.fd),
            why: lost.why.to_string(),
        }
    })?;
    special::restore_content(&saved.specials).map_err(|error| UserError::File {
        path: "a pipe or a POSIX queue".into(),
        why: format!("cannot be given its content: {error}"),
    })?;
    let is_lost = |fd: &i32| match saved.specials.contains_key(fd) {
        true => missing.contains(fd) && !created.contains(fd),
        false => !now.others.contains_key(fd),
    };
    let mut all = saved.specials.iter();
    if let Some((fd, _)) = all.find(|(fd, special)| special.is_queue() && is_lost(fd)) {
        return Err(UserError::File {
            path: format!("its POSIX message queue (descriptor {fd})"),
            why: "the kernel does not create it (see /proc/sys/fs/mqueue, RLIMIT_MSGQUEUE)".into(),
        });
    }
    let is_missed =
        |(fd, name): &(&i32, &Vec<u8>)| name.as_slice() != sockets::SERVICE && is_lost(fd);
    let lost = || saved.others.iter().filter(is_missed);
    if let Some((fd, name)) = lost().next() {
        log::warn!(
            "{}",
            message::descriptors_not_restored(lost().count(), fd, String::from_utf8_lossy(name))
        );
    }
    Ok(())
}

/// Takes the locks that the program held at the cut.
///
/// Called after all processes have released the locks that they have taken since the cut.
pub fn take_locks(rt: &Runtime) -> Result<(), UserError> {
    let locks = rt.files.locks.take();
    let lost = locks
        .iter()
        .find(|(fd, locks)| !file_locks::take(**fd, locks));
    lost.map_or(Ok(()), |(&fd, _)| {
        Err(UserError::File {
            path: path_of(fd).to_string_lossy().into_owned(),
            why: "another process has locked it".into(),
        })
    })
}

/// Restores the descriptors of the program's output.
fn restore_streams(saved: &OpenFilesAtCut, now: &OpenFilesAtCut) {
    for (&fd, stream) in &saved.streams {
        if now.streams.get(&fd) != Some(stream) && !stream.duplicate_to(fd) {
            log::warn!("{}", message::output_not_restored(fd));
        }
    }
    let is_further = |fd: &&i32| **fd > libc::STDERR_FILENO && !saved.streams.contains_key(fd);
    for &fd in now.streams.keys().filter(is_further).chain(&saved.closed) {
        // SAFETY: close(2) of a descriptor that the program has opened after the cut.
        unsafe { libc::close(fd) };
    }
}

/// Restores content, size and offset of a file.
///
/// # Errors
/// Fails if a system call fails, or the file is shorter than at the cut.
fn rewind(fd: i32, file: &OpenFile) -> Result<(), UserError> {
    if let Some(nameless) = &file.nameless
        && nameless.fill(fd, file.flags).is_err()
    {
        return Err(file.failed("cannot be given its content"));
    }
    let size = stat(fd).map_or(0, |stat| stat.st_size);
    // SAFETY: ftruncate(2) and lseek(2) access no memory.
    unsafe {
        if file.is_writable() && size > file.size && libc::ftruncate(fd, file.size) != 0 {
            return Err(file.failed("cannot be truncated to its former size"));
        }
        if file.offset >= 0 && libc::lseek(fd, file.offset, libc::SEEK_SET) < 0 {
            return Err(file.failed("cannot be positioned"));
        }
    }
    if size < file.size && file.is_writable() {
        return Err(UserError::File {
            path: String::from_utf8_lossy(&file.path).into_owned(),
            why: format!("it has {size} bytes instead of {}", file.size),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_all_kinds_are_found() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let pipe = std::io::pipe().unwrap();
        let path = former_name::path_only(file.as_raw_fd()).unwrap();
        let own = [&file as &dyn AsRawFd, &pipe.0, &pipe.1, &path].map(AsRawFd::as_raw_fd);
        let list = descriptors();
        assert!(own.iter().all(|fd| list.contains(fd)), "{list:?}");
        assert!(list.is_sorted());
    }
}
