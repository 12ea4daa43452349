//! Memory of the MPI side: the mappings in its half of the reserved range.
#![allow(unsafe_code)]

use super::mpi_zone::is_mpi;
use super::side_error::ResetError;
use std::ffi::{OsStr, c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use understudy_formats::proc_maps::{MapsLine, REMOVED};

const PAGE: usize = 4096;
const WORD: usize = size_of::<u64>();

/// Mapping (proc_pid_maps(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    range: Range<usize>,
    protection: c_int,
    is_shared: bool,
    is_anonymous: bool,
    /// Path of shared memory, by which other processes can open the memory.
    segment: Option<PathBuf>,
}

/// Directory with the names of shared memory (shm_open(3)).
const SHARED_MEMORY_DIRECTORY: &str = "/dev/shm/";

fn parse(line: &[u8]) -> Option<Mapping> {
    let line = MapsLine::parse(line)?;
    let bit_if = |is_allowed: bool, bit: c_int| if is_allowed { bit } else { 0 };
    let path = line.path();
    let is_segment =
        path.starts_with(SHARED_MEMORY_DIRECTORY.as_bytes()) && !path.ends_with(REMOVED);
    Some(Mapping {
        range: line.range.start as usize..line.range.end as usize,
        protection: bit_if(line.is_readable, libc::PROT_READ)
            | bit_if(line.is_writable, libc::PROT_WRITE)
            | bit_if(line.is_executable, libc::PROT_EXEC),
        is_shared: line.is_shared,
        is_anonymous: line.inode == 0,
        segment: is_segment.then(|| OsStr::from_bytes(&path).into()),
    })
}

/// Returns the mappings of the MPI side, in ascending order.
fn mappings() -> Result<Vec<Mapping>, ResetError> {
    let text = std::fs::read("/proc/self/maps").map_err(ResetError::Mappings)?;
    let all = text.split(|&byte| byte == b'\n').filter_map(parse);
    Ok(all.filter(|mapping| is_mpi(mapping.range.start)).collect())
}

/// Mapping and, if it is private and writable, its content.
struct SavedMapping {
    mapping: Mapping,
    content: Option<Vec<u64>>,
}

/// Mappings, and the contents of the private writable ones.
pub struct SavedMemory(Vec<SavedMapping>);

impl SavedMemory {
    pub fn take() -> Result<SavedMemory, ResetError> {
        let save = |mapping: Mapping| {
            let is_data = mapping.protection & libc::PROT_WRITE != 0 && !mapping.is_shared;
            // SAFETY: a private writable mapping of whole pages, which is readable on x86-64; the
            // library is not running.
            let words = || unsafe {
                std::slice::from_raw_parts(
                    mapping.range.start as *const u64,
                    mapping.range.len() / WORD,
                )
                .to_vec()
            };
            SavedMapping {
                content: is_data.then(words),
                mapping,
            }
        };
        Ok(SavedMemory(mappings()?.into_iter().map(save).collect()))
    }

    pub fn size(&self) -> usize {
        let length =
            |saved: &SavedMapping| saved.content.as_ref().map_or(0, |words| words.len() * WORD);
        self.0.iter().map(length).sum()
    }

    /// Unmaps mappings made since the snapshot, recreates removed ones, and restores the contents.
    ///
    /// # Safety
    /// No other thread may use the memory. The caller must not use pointers that the library has
    /// returned since the snapshot.
    pub unsafe fn put_back(&self) -> Result<(), ResetError> {
        let current = mappings()?;
        for mapping in &current {
            for range in self.without(&mapping.range) {
                // No process must open shared memory of an earlier MPI instance. The process that
                // has created the memory may have failed before it has removed the memory's name.
                if let Some(segment) = &mapping.segment {
                    let _ = std::fs::remove_file(segment);
                }
                // SAFETY: a mapping of the library, created since the snapshot.
                if unsafe { libc::munmap(range.start as *mut c_void, range.len()) } != 0 {
                    return Err(ResetError::Map(range.start, io::Error::last_os_error()));
                }
            }
        }
        for saved in &self.0 {
            saved.recreate(&current)?;
            if let Some(content) = &saved.content {
                // SAFETY: the mapping exists and is writable, and no other thread uses it.
                unsafe { write(saved.mapping.range.start, content) };
            }
        }
        Ok(())
    }

    /// Returns the subranges of a range that are in no saved mapping.
    fn without(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut subranges = Vec::new();
        let mut start = range.start;
        for saved in self.0.iter().map(|saved| &saved.mapping.range) {
            if saved.end <= start || saved.start >= range.end {
                continue;
            }
            if saved.start > start {
                subranges.push(start..saved.start);
            }
            start = saved.end.min(range.end);
        }
        if start < range.end {
            subranges.push(start..range.end);
        }
        subranges
    }
}

impl SavedMapping {
    /// Recreates the mapping: fills holes, and sets protections.
    fn recreate(&self, current: &[Mapping]) -> Result<(), ResetError> {
        let Mapping {
            range, protection, ..
        } = &self.mapping;
        let overlapping = || {
            current
                .iter()
                .filter(|other| other.range.start < range.end && other.range.end > range.start)
        };
        let mut mapped_end = range.start;
        for mapped in overlapping()
            .map(|other| &other.range)
            .chain([&(range.end..range.end)])
        {
            if mapped.start > mapped_end {
                self.fill(mapped_end..mapped.start)?;
            }
            mapped_end = mapped_end.max(mapped.end);
        }
        let differs = |other: &Mapping| other.protection != *protection;
        if overlapping().any(differs) {
            // SAFETY: mprotect(2) of a mapping of the library, which no other thread uses, as the
            // caller of `put_back` guarantees.
            let failed =
                unsafe { libc::mprotect(range.start as *mut c_void, range.len(), *protection) }
                    != 0;
            if failed {
                return Err(ResetError::Map(range.start, io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    /// Maps new memory in a hole of the mapping.
    fn fill(&self, hole: Range<usize>) -> Result<(), ResetError> {
        if !self.mapping.is_anonymous || self.mapping.is_shared {
            return Err(ResetError::MappingRemoved(hole.start));
        }
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_FIXED_NOREPLACE
            | libc::MAP_NORESERVE;
        // SAFETY: mmap(2) in unmapped memory.
        let at = unsafe {
            libc::mmap(
                hole.start as *mut c_void,
                hole.len(),
                self.mapping.protection,
                flags,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(ResetError::Map(hole.start, io::Error::last_os_error()));
        }
        Ok(())
    }
}

/// Writes only pages that differ, so that unchanged pages of files are not copied.
///
/// # Safety
/// The memory must be mapped and writable, and no other thread may use it.
unsafe fn write(start: usize, content: &[u64]) {
    for (address, page) in (start..).step_by(PAGE).zip(content.chunks(PAGE / WORD)) {
        // SAFETY: the caller guarantees that the memory is mapped and no other thread uses it.
        let memory = unsafe { std::slice::from_raw_parts_mut(address as *mut u64, page.len()) };
        if memory != page {
            memory.copy_from_slice(page);
        }
    }
}
