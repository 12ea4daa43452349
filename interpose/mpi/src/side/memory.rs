//! Memory of the MPI side: the mappings in its half of the reserved range.
#![allow(unsafe_code)]

use super::mpi_zone::is_mpi;
use super::side_error::Error;
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;

const PAGE: usize = 4096;
const WORD: usize = size_of::<u64>();

/// Mapping (proc_pid_maps(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    range: Range<usize>,
    protection: c_int,
    is_shared: bool,
    is_anonymous: bool,
    /// Name of shared memory, by which other processes can open it.
    segment: Option<String>,
}

/// Directory with the names of shared memory (shm_open(3)).
const MEMORY: &str = "/dev/shm/";

fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let flags = words.next()?.as_bytes();
    let bit = |at: usize, letter: u8, bit: c_int| {
        if flags.get(at) == Some(&letter) {
            bit
        } else {
            0
        }
    };
    let inode = words.nth(2)?;
    let name = words
        .next()
        .filter(|name| name.starts_with(MEMORY) && words.next().is_none());
    Some(Mapping {
        range: number(start)?..number(end)?,
        protection: bit(0, b'r', libc::PROT_READ)
            | bit(1, b'w', libc::PROT_WRITE)
            | bit(2, b'x', libc::PROT_EXEC),
        is_shared: flags.get(3) == Some(&b's'),
        is_anonymous: inode == "0",
        segment: name.map(str::to_owned),
    })
}

/// Returns the mappings of the MPI side, in ascending order.
fn mappings() -> Result<Vec<Mapping>, Error> {
    let text = std::fs::read_to_string("/proc/self/maps").map_err(Error::Mappings)?;
    let all = text.lines().filter_map(parse);
    Ok(all.filter(|mapping| is_mpi(mapping.range.start)).collect())
}

/// Mapping and, if it is private and writable, its content.
struct Kept {
    mapping: Mapping,
    content: Option<Vec<u64>>,
}

/// Mappings, and the contents of the private writable ones.
pub struct Saved(Vec<Kept>);

impl Saved {
    pub fn take() -> Result<Saved, Error> {
        let keep = |mapping: Mapping| {
            let is_data = mapping.protection & libc::PROT_WRITE != 0 && !mapping.is_shared;
            // SAFETY: a readable mapping of whole pages; the library is not running.
            let words = || unsafe {
                std::slice::from_raw_parts(
                    mapping.range.start as *const u64,
                    mapping.range.len() / WORD,
                )
                .to_vec()
            };
            Kept {
                content: is_data.then(words),
                mapping,
            }
        };
        Ok(Saved(mappings()?.into_iter().map(keep).collect()))
    }

    pub fn size(&self) -> usize {
        let length = |kept: &Kept| kept.content.as_ref().map_or(0, |words| words.len() * WORD);
        self.0.iter().map(length).sum()
    }

    /// Unmaps new mappings, recreates removed ones, and restores the contents.
    ///
    /// # Safety
    /// No other thread may use the memory. The caller must not use pointers that it has received
    /// from the library since.
    pub unsafe fn put_back(&self) -> Result<(), Error> {
        let now = mappings()?;
        for mapping in &now {
            for range in self.without(&mapping.range) {
                // The process that has created the segment may have failed before removing its
                // name, and no process must open it any more.
                if let Some(segment) = &mapping.segment {
                    let _ = std::fs::remove_file(segment);
                }
                // SAFETY: a mapping of the library, created since.
                if unsafe { libc::munmap(range.start as *mut c_void, range.len()) } != 0 {
                    return Err(Error::Map(range.start, io::Error::last_os_error()));
                }
            }
        }
        for kept in &self.0 {
            kept.map_again(&now)?;
            if let Some(content) = &kept.content {
                // SAFETY: the mapping exists and is writable, and no other thread uses it.
                unsafe { write(kept.mapping.range.start, content) };
            }
        }
        Ok(())
    }

    /// Returns the parts of a range that are in no kept mapping.
    fn without(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = range.start;
        for kept in self.0.iter().map(|kept| &kept.mapping.range) {
            if kept.end <= start || kept.start >= range.end {
                continue;
            }
            if kept.start > start {
                parts.push(start..kept.start);
            }
            start = kept.end.min(range.end);
        }
        if start < range.end {
            parts.push(start..range.end);
        }
        parts
    }
}

impl Kept {
    /// Recreates the mapping: fills holes, and sets protections.
    fn map_again(&self, now: &[Mapping]) -> Result<(), Error> {
        let Mapping {
            range, protection, ..
        } = &self.mapping;
        let overlapping = || {
            now.iter()
                .filter(|other| other.range.start < range.end && other.range.end > range.start)
        };
        let mut at = range.start;
        for hole in overlapping()
            .map(|other| &other.range)
            .chain([&(range.end..range.end)])
        {
            if hole.start > at {
                self.fill(at..hole.start)?;
            }
            at = at.max(hole.end);
        }
        let differs = |other: &Mapping| other.protection != *protection;
        if overlapping().any(differs) {
            // SAFETY: mprotect(2) of a mapping of the library.
            let failed =
                unsafe { libc::mprotect(range.start as *mut c_void, range.len(), *protection) }
                    != 0;
            if failed {
                return Err(Error::Map(range.start, io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    fn fill(&self, hole: Range<usize>) -> Result<(), Error> {
        if !self.mapping.is_anonymous || self.mapping.is_shared {
            return Err(Error::Gone(hole.start));
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
            return Err(Error::Map(hole.start, io::Error::last_os_error()));
        }
        Ok(())
    }
}

/// Writes the pages that differ; the kernel's pages of the others do not change.
///
/// # Safety
/// The memory must be mapped and writable, and no other thread may use it.
unsafe fn write(start: usize, content: &[u64]) {
    for (at, page) in (start..).step_by(PAGE).zip(content.chunks(PAGE / WORD)) {
        // SAFETY: by the caller's contract.
        let memory = unsafe { std::slice::from_raw_parts_mut(at as *mut u64, page.len()) };
        if memory != page {
            memory.copy_from_slice(page);
        }
    }
}
