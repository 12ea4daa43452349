//! The memory of a store: one range of addresses, of which more is opened as the image grows, and a
//! checksum for each slot.
//!
//! Private memory is reserved without access; `PROT_NONE` memory is not charged against the commit
//! limit, see <https://docs.kernel.org/mm/overcommit-accounting.html>. Memory that is to outlive
//! the process is that of [`Files`], which have their full length from the start, and holes: a
//! limit for the length of files (setrlimit(2)) that the program sets later does not concern what
//! is written through a mapping. Both ask for transparent huge pages: first touch of memory costs
//! more than the copy into it, and a huge page is touched once per 512 slots
//! (<https://docs.kernel.org/admin-guide/mm/transhuge.html>; whether files in memory may have them,
//! `shmem_enabled` says there).

#![allow(unsafe_code)]

use super::slot::{Extent, Slot};
use super::store_config::StoreConfig;
use super::store_error::StoreError;
use crate::PAGE_SIZE;
use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

/// Two files in memory (memfd_create(2)), in which an arena outlives its process.
#[derive(Clone, Debug)]
pub struct Files {
    /// The pages, by slot.
    pub pages: Arc<File>,
    /// From [`SUMS_AT`] on the checksums, by slot. What lies before is the owner's.
    pub index: Arc<File>,
}

/// Number of slots (64 MiB) by which an arena grows.
pub(super) const GROW_STEP: u64 = 16384;

/// Start of the checksums in their file, which has holes.
pub const SUMS_AT: u64 = 2 << 30;
/// Slots that there is room for.
const FILE_SLOTS: u64 = 1 << 28;
/// Bytes of a checksum.
const SUM: usize = size_of::<u64>();

impl Files {
    /// New ones, closed on exec.
    ///
    /// # Errors
    /// Those of memfd_create(2) and ftruncate(2).
    pub fn new() -> io::Result<Files> {
        let make = |name: &CStr| -> io::Result<Arc<File>> {
            // SAFETY: memfd_create(2), whose descriptor nobody else has.
            let file = unsafe {
                let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
                (descriptor >= 0).then(|| File::from_raw_fd(descriptor))
            };
            Ok(Arc::new(file.ok_or_else(io::Error::last_os_error)?))
        };
        let files = Files {
            pages: make(c"understudy-pages")?,
            index: make(c"understudy-index")?,
        };
        files.index.set_len(SUMS_AT + FILE_SLOTS * SUM as u64)?;
        files.pages.set_len(FILE_SLOTS * PAGE_SIZE as u64)?;
        Ok(files)
    }

    /// Gives the memory of all pages back to the kernel: they read as zeros.
    ///
    /// # Errors
    /// Those of fallocate(2).
    pub fn discard_pages(&self) -> io::Result<()> {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let bytes = (FILE_SLOTS * PAGE_SIZE as u64) as libc::off_t;
        // SAFETY: fallocate(2) with a descriptor of this value.
        match unsafe { libc::fallocate(self.pages.as_raw_fd(), how, 0, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The owner's part of the index.
    ///
    /// # Errors
    /// [`StoreError::Reserve`]
    pub fn front(&self) -> Result<Front, StoreError> {
        let base = map(None, SUMS_AT as usize, Some((&*self.index, 0)))?;
        keep_apart(base, SUMS_AT as usize, true);
        Ok(Front { base: base.cast() })
    }
}

/// The first [`SUMS_AT`] bytes of the index, to be written.
#[derive(Debug)]
pub struct Front {
    base: *mut u8,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Front {}

impl Front {
    /// Writes bytes, after all that was written before: whoever finds this process dead finds the
    /// file so.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, bytes: &[u8], at: u64) {
        assert!(
            at + bytes.len() as u64 <= SUMS_AT,
            "outside of the owner's part"
        );
        compiler_fence(Ordering::SeqCst);
        // SAFETY: memory of this mapping, which nobody else writes.
        unsafe {
            let to = self.base.add(at as usize);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // SAFETY: the mapping of `front`, with its length, which is not used any more.
        unsafe { libc::munmap(self.base.cast(), SUMS_AT as usize) };
    }
}

/// The checksums, by slot.
#[derive(Debug)]
enum Sums {
    Own(Vec<u64>),
    Mapped(*mut u64),
}

#[derive(Debug)]
pub(super) struct Arena {
    base: *mut u8,
    pub capacity: u64,
    /// Slots that may be accessed.
    pub open: u64,
    sums: Sums,
}

// SAFETY: the arena belongs to its store alone and is not bound to a thread.
unsafe impl Send for Arena {}

/// A new mapping: of a file from an offset on, or without access.
fn map(
    base: Option<u64>,
    bytes: usize,
    file: Option<(&File, u64)>,
) -> Result<*mut c_void, StoreError> {
    let fixed = base.map_or(0, |_| libc::MAP_FIXED_NOREPLACE);
    let (access, kind, descriptor, offset): (c_int, c_int, c_int, u64) = match file {
        None => (
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        ),
        Some((file, at)) => (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            at,
        ),
    };
    // SAFETY: a new mapping; FIXED_NOREPLACE never replaces an existing one.
    let at = unsafe {
        libc::mmap(
            base.unwrap_or(0) as *mut c_void,
            bytes,
            access,
            kind | libc::MAP_NORESERVE | fixed,
            descriptor,
            offset as libc::off_t,
        )
    };
    if at == libc::MAP_FAILED {
        let source = io::Error::last_os_error();
        return Err(StoreError::Reserve { bytes, source });
    }
    Ok(at)
}

/// A mapping that is no part of core dumps (its holes would be filled for one) nor, perhaps, of
/// children.
fn keep_apart(base: *mut c_void, bytes: usize, dont_fork: bool) {
    // Hints: a kernel built without them serves as well.
    // SAFETY: advice on a mapping that no other code knows.
    unsafe {
        libc::madvise(base, bytes, libc::MADV_DONTDUMP);
        if dont_fork {
            libc::madvise(base, bytes, libc::MADV_DONTFORK);
        }
    }
}

impl Arena {
    pub fn new(config: StoreConfig, files: Option<Files>) -> Result<Arena, StoreError> {
        let capacity = config.capacity_pages.next_multiple_of(GROW_STEP);
        let capacity = files
            .as_ref()
            .map_or(capacity, |_| capacity.min(FILE_SLOTS));
        let bytes = capacity as usize * PAGE_SIZE;
        let base = map(
            config.base,
            bytes,
            files.as_ref().map(|files| (&*files.pages, 0)),
        )?;
        let arena = |sums| Arena {
            base: base.cast(),
            capacity,
            open: 0,
            sums,
        };
        let arena = match &files {
            None => arena(Sums::Own(Vec::new())),
            Some(files) => {
                let length = capacity as usize * SUM;
                let mapped = map(None, length, Some((&*files.index, SUMS_AT)));
                // Dropped, it would not know of these.
                let mapped = mapped.inspect_err(|_| drop(arena(Sums::Own(Vec::new()))))?;
                keep_apart(mapped, length, config.dont_fork);
                arena(Sums::Mapped(mapped.cast()))
            }
        };
        keep_apart(base, bytes, config.dont_fork);
        // Hints for speed. With the second the kernel does not note each page of a file as used
        // when the process is torn down.
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_RANDOM] {
            // SAFETY: advice on a mapping made above, which no other code knows.
            unsafe { libc::madvise(base, bytes, advice) };
        }
        Ok(arena)
    }

    /// The address of a slot.
    pub fn ptr(&self, slot: Slot) -> *mut u8 {
        assert!(slot.0 < self.capacity, "slot outside of the arena");
        self.base.wrapping_add(slot.0 as usize * PAGE_SIZE)
    }

    /// The checksum of an open slot.
    pub fn sum(&self, slot: Slot) -> u64 {
        match &self.sums {
            Sums::Own(sums) => sums[slot.0 as usize],
            Sums::Mapped(sums) => {
                assert!(slot.0 < self.open, "a slot that is not open");
                // SAFETY: the file has a sum for each open slot.
                unsafe { sums.add(slot.0 as usize).read() }
            }
        }
    }

    pub fn set_sum(&mut self, slot: Slot, sum: u64) {
        match &mut self.sums {
            Sums::Own(sums) => sums[slot.0 as usize] = sum,
            Sums::Mapped(sums) => {
                assert!(slot.0 < self.open, "a slot that is not open");
                // SAFETY: the file has a sum for each open slot.
                unsafe { sums.add(slot.0 as usize).write(sum) };
            }
        }
    }

    /// Makes slots below `end` accessible.
    pub fn open_up_to(&mut self, end: u64) -> Result<(), StoreError> {
        if end <= self.open {
            return Ok(());
        }
        let target = end.next_multiple_of(GROW_STEP).min(self.capacity);
        if let Sums::Own(sums) = &mut self.sums {
            let bytes = (target - self.open) as usize * PAGE_SIZE;
            let start = self.base.wrapping_add(self.open as usize * PAGE_SIZE);
            // SAFETY: the range lies in the arena and holds nothing yet.
            if unsafe { libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) }
                != 0
            {
                let source = io::Error::last_os_error();
                return Err(StoreError::Grow { bytes, source });
            }
            sums.resize(target as usize, 0);
        }
        self.open = target;
        Ok(())
    }

    /// Makes memory of open slots that nobody uses present.
    pub fn populate(&self, extent: Extent) -> Result<(), StoreError> {
        let bytes = extent.len as usize * PAGE_SIZE;
        let start = self.ptr(extent.first);
        // SAFETY: the slots are open and free; populating does not change what they hold.
        let rc = unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) };
        if rc == 0 {
            return Ok(());
        }
        let source = io::Error::last_os_error();
        if source.raw_os_error() != Some(libc::EINVAL) {
            let pages = extent.len;
            return Err(StoreError::Populate { pages, source });
        }
        // Kernels before 5.14 do not know the advice.
        for page in 0..extent.len as usize {
            // SAFETY: an open slot that nobody uses.
            unsafe { start.add(page * PAGE_SIZE).write_volatile(0) };
        }
        Ok(())
    }

    /// Gives memory of open slots that nobody uses back to the kernel; in a file that makes a hole
    /// (madvise(2)).
    pub fn dont_need(&self, first: Slot, pages: u64) -> Result<(), StoreError> {
        let bytes = pages as usize * PAGE_SIZE;
        let advice = match self.sums {
            Sums::Mapped(_) => libc::MADV_REMOVE,
            Sums::Own(_) => libc::MADV_DONTNEED,
        };
        // SAFETY: nobody needs what the slots hold.
        let rc = unsafe { libc::madvise(self.ptr(first).cast(), bytes, advice) };
        if rc != 0 {
            let source = io::Error::last_os_error();
            return Err(StoreError::GiveBack { pages, source });
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mappings of `new`, with these lengths, which are not used any more.
        unsafe {
            libc::munmap(self.base.cast(), self.capacity as usize * PAGE_SIZE);
            if let Sums::Mapped(sums) = self.sums {
                libc::munmap(sums.cast(), self.capacity as usize * SUM);
            }
        }
    }
}
