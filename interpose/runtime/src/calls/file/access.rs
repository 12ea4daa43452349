//! Reads and writes of files (MPI 4.1, 14.4).
#![allow(unsafe_code)]

use super::file_failure::{FileFailure, FileResult, class, comm_of, entry};
use super::file_memory::AccessMemory;
use super::shared_pointer;
use super::view_layout::{layout_of, view_overlaps};
use crate::Runtime;
use crate::errors::*;
use crate::handles::{VirtDatatype, VirtFile};
use crate::objects::file::layout::Range;
use crate::objects::file::shared_pointer::lock;
use crate::objects::file::{self, OpenFile, mode};
use crate::{user, world};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Rank;

/// Direction of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessDirection {
    Read,
    Write,
}

/// Start of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessStart {
    /// At this offset, in units of the view.
    Offset(i64),
    /// At the individual pointer.
    Individual,
    /// At the shared pointer.
    Shared,
    /// At the shared pointer, one process after the other.
    Ordered,
}

/// Buffer of the program.
#[derive(Clone, Copy)]
pub(super) struct AccessBuffer {
    pub address: *mut c_void,
    pub count: c_int,
    pub datatype: VirtDatatype,
}

/// Returns the start of this process's ordered access of `units`; collective.
///
/// The first process advances the shared pointer for all, and broadcasts the old position. The
/// accesses of the processes follow each other from there, in the order of ranks.
fn in_order(rt: &Runtime, file: &OpenFile, units: u64) -> FileResult<u64> {
    let comm: RealComm = comm_of(rt, file);
    let all = comm.gather(&[units])?;
    let mine = comm.rank()?.0 as usize;
    // An error of the first process is sent as an invalid position.
    let mut base = u64::MAX;
    let mut failed = None;
    if mine == 0 {
        match shared_pointer::advance(rt, file, all.iter().sum()) {
            Ok(old) => base = old,
            Err(failure) => failed = Some(failure),
        }
    }
    let base = comm.broadcast(Rank(0), vec![base])?[0];
    if let Some(failure) = failed {
        return Err(failure);
    }
    if base == u64::MAX {
        return Err(class(ERR_IO));
    }
    Ok(base + all[..mine].iter().sum::<u64>())
}

/// Checks an access before it starts.
fn check(
    rt: &Runtime,
    fh: VirtFile,
    file: &OpenFile,
    direction: AccessDirection,
    at: AccessStart,
) -> FileResult<()> {
    let has = |flag: c_int| file.mode & flag != 0;
    match direction {
        AccessDirection::Read if has(mode::WRONLY) => return Err(class(ERR_ACCESS)),
        AccessDirection::Write if has(mode::RDONLY) => return Err(class(ERR_READ_ONLY)),
        _ => {}
    }
    if has(mode::SEQUENTIAL) && matches!(at, AccessStart::Offset(_) | AccessStart::Individual) {
        return Err(class(ERR_UNSUPPORTED_OPERATION));
    }
    if direction == AccessDirection::Write && layout_of(rt, fh, file)?.repeats() {
        return Err(view_overlaps());
    }
    Ok(())
}

/// Returns the start of this process's access, in units of the view.
fn start_of(rt: &Runtime, file: &OpenFile, at: AccessStart, units: u64) -> FileResult<u64> {
    match at {
        AccessStart::Offset(offset) => u64::try_from(offset).map_err(|_| class(ERR_ARG)),
        AccessStart::Individual => Ok(file.position),
        AccessStart::Shared => shared_pointer::advance(rt, file, units),
        AccessStart::Ordered => in_order(rt, file, units),
    }
}

/// Reads or writes; returns the number of bytes of data.
///
/// # Safety
/// The buffer must be the program's.
pub(super) unsafe fn access(
    rt: &Runtime,
    fh: VirtFile,
    direction: AccessDirection,
    at: AccessStart,
    buffer: AccessBuffer,
) -> FileResult<u64> {
    let file = entry(rt, fh)?;
    let AccessBuffer {
        address,
        count,
        datatype,
    } = buffer;
    let representation = file.view.representation;
    let memory = check(rt, fh, &file, direction, at)
        .and_then(|()| AccessMemory::new(rt, address, count, datatype, representation));
    let memory = match memory {
        // The other processes wait for this one in the collective.
        Err(failure @ FileFailure::Class(_)) if at == AccessStart::Ordered => {
            in_order(rt, &file, 0)?;
            return Err(failure);
        }
        memory => memory?,
    };
    let start = start_of(rt, &file, at, memory.bytes().div_ceil(file.view.unit))?;
    let ranges = layout_of(rt, fh, &file)?.ranges(start * file.view.unit, memory.bytes());
    // SAFETY: `memory` describes the program's buffer.
    let bytes = unsafe {
        match direction {
            AccessDirection::Read => read(rt, fh, &file, &ranges, &memory)?,
            AccessDirection::Write => write(rt, fh, &file, &ranges, &memory)?,
        }
    };
    if let (AccessStart::Individual, Some(mut file)) = (at, file::get_mut(rt, fh)) {
        file.position = start + bytes.div_ceil(file.view.unit);
    }
    Ok(bytes)
}

/// Returns the range from the first to the last byte.
fn whole(ranges: &[Range]) -> Option<Range> {
    let begin = ranges.iter().map(|range| range.0).min()?;
    let end = ranges.iter().map(|range| range.0 + range.1).max()?;
    Some((begin, end - begin))
}

/// True for a file on NFS, where only locks make data visible to other hosts.
///
/// See fcntl(2), "Record locking and NFS".
fn is_on_nfs(open: &std::fs::File) -> bool {
    // SAFETY: fstatfs(2) of an open file into a local variable.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::fstatfs(open.as_raw_fd(), &mut found) == 0 && found.f_type == libc::NFS_SUPER_MAGIC
    }
}

/// Excludes conflicting accesses of other processes, if necessary.
///
/// Exclusion is necessary if the file is atomic, or on NFS while the job has several nodes.
fn locked<T>(
    rt: &Runtime,
    file: &OpenFile,
    open: &std::fs::File,
    kind: c_int,
    ranges: &[Range],
    act: impl FnOnce() -> FileResult<T>,
) -> FileResult<T> {
    match whole(ranges) {
        Some(range) if file.atomic || !world::is_on_one_node(rt) && is_on_nfs(open) => {
            lock(open, kind, range)?;
            let done = act();
            lock(open, libc::F_UNLCK, range)?;
            done
        }
        _ => act(),
    }
}

/// Reads these ranges up to the end of the file; returns the number of bytes.
fn read_ranges(open: &std::fs::File, ranges: &[Range], into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    for &(offset, length) in ranges {
        let end = done + length as usize;
        let mut at = offset;
        while done < end {
            match open.read_at(&mut into[done..end], at) {
                Ok(0) => return Ok(done),
                Ok(count) => (done, at) = (done + count, at + count as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(done)
}

unsafe fn read(
    rt: &Runtime,
    fh: VirtFile,
    file: &OpenFile,
    ranges: &[Range],
    memory: &AccessMemory,
) -> FileResult<u64> {
    let open = file::descriptor(rt, fh)?;
    let read = |into: &mut [u8]| {
        locked(rt, file, &open, libc::F_RDLCK, ranges, || {
            Ok(read_ranges(&open, ranges, into)?)
        })
    };
    if let Some(plain) = memory.plain() {
        // SAFETY: MPI requires the program's buffer to be valid and to have no other users now.
        return Ok(read(unsafe { &mut *plain })? as u64);
    }
    let mut data = vec![0; memory.bytes() as usize];
    let count = read(&mut data)?;
    memory.scatter(rt, &data[..count])?;
    Ok(count as u64)
}

unsafe fn write(
    rt: &Runtime,
    fh: VirtFile,
    file: &OpenFile,
    ranges: &[Range],
    memory: &AccessMemory,
) -> FileResult<u64> {
    let open = file::descriptor(rt, fh)?;
    // SAFETY: `memory` describes the program's buffer.
    let data = unsafe { memory.gather(rt)? };
    locked(rt, file, &open, libc::F_WRLCK, ranges, || {
        user::note_overwriting(rt, &open, ranges);
        let mut rest = &data[..];
        for &(offset, length) in ranges {
            let (part, after) = rest.split_at(length as usize);
            open.write_all_at(part, offset)?;
            rest = after;
        }
        Ok((data.len() - rest.len()) as u64)
    })
}
