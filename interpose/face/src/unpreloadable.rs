//! Programs into which ld.so does not preload this library.
//!
//! Such a program, executed by a rank or its wrapper, would not continue as the rank, but be a job
//! of one process. If the launcher itself starts such a program, no process of the job has this
//! library, and the program cannot be refused.
#![allow(unsafe_code)]

use crate::environ;
use crate::link::Path;
use crate::messages::Text;
use crate::sys::{self, nr, sys};
use core::ffi::{CStr, c_char, c_int};
use core::fmt::{Display, from_fn};
use understudy_catalogue::message;

/// File argument of a function that executes a program.
#[derive(Clone, Copy)]
pub enum ExecutedFile {
    Path(*const c_char),
    /// A name; without a slash it is searched in PATH.
    Name(*const c_char),
    Descriptor(c_int),
    /// A path relative to the directory of a descriptor.
    At(c_int, *const c_char),
}

/// Reason for which this library is not preloaded into a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The program runs as another user or group (set-user-ID, set-group-ID).
    OtherUser,
    /// The program's file has capabilities (capabilities(7)).
    Capabilities,
    /// The program is linked with musl, whose loader cannot load this library.
    Musl,
    /// The program is linked statically with an MPI library.
    Static,
}

impl Obstacle {
    /// Returns the message that refuses `program`.
    pub fn message(self, program: Text<'_>) -> impl Display {
        from_fn(move |out| match self {
            Obstacle::OtherUser => message::set_user_id(program).fmt(out),
            Obstacle::Capabilities => message::file_capabilities(program).fmt(out),
            Obstacle::Musl => message::musl(program).fmt(out),
            Obstacle::Static => message::static_program(program).fmt(out),
        })
    }
}

impl ExecutedFile {
    /// Returns the file's path.
    ///
    /// # Safety
    /// The strings must be valid, and `list` the environment.
    pub unsafe fn path(self, list: *const *const c_char) -> Path {
        let mut path = Path::new();
        // SAFETY: the caller guarantees that the strings and the environment `list` are valid.
        unsafe {
            match self {
                ExecutedFile::Path(name) => drop(path.push(sys::bytes(name))),
                ExecutedFile::Name(name) => {
                    let search = environ::value(list, b"PATH=").unwrap_or(b"/bin:/usr/bin");
                    search_for(sys::bytes(name), search, &mut path);
                }
                ExecutedFile::Descriptor(fd) => push_descriptor(&mut path, fd),
                ExecutedFile::At(directory, name) => {
                    let name = sys::bytes(name);
                    const AT_FDCWD: c_int = -100;
                    if directory != AT_FDCWD && name.first() != Some(&b'/') {
                        push_descriptor(&mut path, directory);
                        path.push(if name.is_empty() { b"" } else { b"/" });
                    }
                    path.push(name);
                }
            }
        }
        path
    }
}

/// Finds an executable file with the algorithm of execvp(3).
fn search_for(name: &[u8], search: &[u8], found: &mut Path) {
    const EXECUTE: usize = 1;
    if name.contains(&b'/') {
        found.push(name);
        return;
    }
    for directory in search.split(|&byte| byte == b':') {
        found.clear().push(directory);
        found.push(if directory.is_empty() { b"" } else { b"/" });
        found.push(name);
        // SAFETY: access(2) reads the terminated path.
        if unsafe { sys!(nr::ACCESS, found.as_ptr(), EXECUTE) } == 0 {
            return;
        }
    }
    found.clear();
}

fn push_descriptor(path: &mut Path, fd: c_int) {
    use core::fmt::Write;
    let mut name = crate::messages::Line::new();
    let _ = write!(name, "/proc/self/fd/{fd}");
    path.push(name.as_bytes());
}

/// Returns the reason for which this library is not preloaded into a program.
///
/// `None` also for a script, whose interpreter is executed, and for a static program without an MPI
/// library, which cannot be a rank.
pub fn find(path: &Path) -> Option<Obstacle> {
    let privileges = gained_privileges(path.as_c_str());
    let file = MappedFile::open(path);
    let bytes = file.as_ref().map_or(&[][..], MappedFile::bytes);
    if bytes.starts_with(b"#!") {
        return None;
    }
    let names_any = |names: &[&[u8]]| names.iter().any(|name| contains(bytes, name));
    match (privileges, interpreter(bytes)) {
        (Some(obstacle), _) => Some(obstacle),
        (None, Some(loader)) if contains(loader, b"ld-musl") => Some(Obstacle::Musl),
        // The static program contains the names of a process manager's variables, so it contains an
        // MPI library.
        (None, None) if names_any(&[b"PMI_RANK", b"PMIX_RANK"]) => Some(Obstacle::Static),
        (None, _) => None,
    }
}

/// Returns true if ld.so preloads this library into a program; true for a script.
pub fn is_preloadable(path: &Path) -> bool {
    let file = MappedFile::open(path);
    let bytes = file.as_ref().map_or(&[][..], MappedFile::bytes);
    let is_static = bytes.starts_with(b"\x7fELF") && interpreter(bytes).is_none();
    !is_static && find(path).is_none()
}

/// Returns true if a program's file contains the name of an MPI library.
pub fn needs_mpi(path: &Path) -> bool {
    let names: [&[u8]; 3] = [b"libmpi.so.", b"libmpich.so.", b"libmpi_abi.so."];
    MappedFile::open(path).is_some_and(|file| names.iter().any(|name| contains(file.bytes(), name)))
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|window| window == name)
}

/// Returns the obstacle if the program gains privileges when it is executed (execve(2)).
///
/// ld.so then ignores LD_PRELOAD (ld.so(8), "Secure-execution mode").
fn gained_privileges(path: &CStr) -> Option<Obstacle> {
    const PR_GET_NO_NEW_PRIVS: usize = 39;
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let mut stat = [0u64; 18];
    // SAFETY: stat(2) writes 144 bytes; getxattr(2) has no buffer; the other calls access no
    // memory.
    unsafe {
        if sys!(nr::STAT, path.as_ptr(), stat.as_mut_ptr()) != 0
            || sys!(nr::PRCTL, PR_GET_NO_NEW_PRIVS) == 1
        {
            return None;
        }
        // The 32-bit words st_mode, st_uid and st_gid are at the offsets 24, 28 and 32.
        let (mode, user, group) = (stat[3] as u32, (stat[3] >> 32) as isize, stat[4] as u32);
        let (own_user, own_group) = (sys!(nr::GETEUID), sys!(nr::GETEGID));
        let sets_user = mode & SET_USER != 0 && user != own_user;
        let sets_group = mode & SET_GROUP == SET_GROUP && group as isize != own_group;
        if sets_user || sets_group {
            return Some(Obstacle::OtherUser);
        }
        let name = c"security.capability".as_ptr();
        let has_capabilities = sys!(nr::GETXATTR, path.as_ptr(), name, 0, 0) > 0;
        (own_user != 0 && has_capabilities).then_some(Obstacle::Capabilities)
    }
}

/// Returns the name of a program's loader (PT_INTERP).
///
/// `None` for a static program, and for a file of another format.
fn interpreter(file: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: usize = 3;
    let number = |offset: usize, length: usize| -> Option<usize> {
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(file.get(offset..offset + length)?);
        Some(u64::from_le_bytes(bytes) as usize)
    };
    if !file.starts_with(b"\x7fELF") {
        return None;
    }
    // e_phoff, e_phentsize and e_phnum of the header (elf(5)).
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    (0..count)
        .map(|index| table.saturating_add(index * size))
        .find(|&header| number(header, 4) == Some(PT_INTERP))
        .and_then(|header| {
            // p_offset and p_filesz.
            let (offset, length) = (number(header + 8, 8)?, number(header + 32, 8)?);
            file.get(offset..offset.checked_add(length)?)
        })
}

/// A file that is mapped for reading.
struct MappedFile {
    address: usize,
    length: usize,
}

impl MappedFile {
    fn open(path: &Path) -> Option<MappedFile> {
        const PROT_READ: usize = 1;
        const MAP_PRIVATE: usize = 2;
        const SEEK_END: usize = 2;
        const O_CLOEXEC: usize = 0o2000000;
        // SAFETY: a new mapping of a file that this function opens and closes.
        unsafe {
            let fd = sys!(nr::OPENAT, -100isize, path.as_ptr(), O_CLOEXEC, 0);
            if fd < 0 {
                return None;
            }
            let length = sys!(nr::LSEEK, fd, 0, SEEK_END);
            let address = sys!(nr::MMAP, 0, length, PROT_READ, MAP_PRIVATE, fd, 0);
            sys!(nr::CLOSE, fd);
            (length > 0 && address > 0).then_some(MappedFile {
                address: address as usize,
                length: length as usize,
            })
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`.
        unsafe { core::slice::from_raw_parts(self.address as *const u8, self.length) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: `open` has created the mapping, which no reference outlives.
        unsafe { sys::unmap(self.address, self.length) };
    }
}
