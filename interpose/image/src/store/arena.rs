//! Memory of a store: a reserved address range, and a checksum per slot.
//!
//! Private memory is reserved without access: `PROT_NONE` memory is not charged against the commit
//! limit, see <https://docs.kernel.org/mm/overcommit-accounting.html>.
//!
//! Memory that must outlive the process is in [`ArenaFiles`]. The files are sparse and have their
//! maximum length from the start: if the program later sets a limit for the size of files
//! (setrlimit(2)), they need not grow.
//!
//! Both kinds request transparent huge pages: the first touch of memory costs more than the copy
//! into it, and a huge page is touched once per 512 slots
//! (<https://docs.kernel.org/admin-guide/mm/transhuge.html>; the setting `shmem_enabled` described
//! there applies to files in memory).

#![allow(unsafe_code)]

use super::slot::Slot;
use super::store_config::StoreConfig;
use super::store_error::StoreError;
use crate::PAGE_SIZE;
use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

/// Two files in memory (memfd_create(2)) that let an arena outlive its process.
#[derive(Clone, Debug)]
pub struct ArenaFiles {
    /// Pages, by slot.
    pub pages: Arc<File>,
    /// Checksums, by slot, from [`SUMS_OFFSET`] on. The bytes below that offset belong to the
    /// owner of the store.
    pub index: Arc<File>,
}

/// Number of slots (64 MiB) by which an arena grows.
pub(super) const GROW_STEP: u64 = 16384;

/// Offset of the checksums in the index file, which is sparse.
pub const SUMS_OFFSET: u64 = 2 << 30;
/// Maximum number of slots in files.
const MAX_FILE_SLOTS: u64 = 1 << 28;
/// Size of a checksum in bytes.
const SUM_BYTES: usize = size_of::<u64>();

impl ArenaFiles {
    /// Creates both files, closed on exec.
    ///
    /// # Errors
    /// Errors of memfd_create(2) and ftruncate(2).
    pub fn new() -> io::Result<ArenaFiles> {
        let make = |name: &CStr| -> io::Result<Arc<File>> {
            // SAFETY: memfd_create(2) returns a new descriptor, which only this `File` owns.
            let file = unsafe {
                let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
                (descriptor >= 0).then(|| File::from_raw_fd(descriptor))
            };
            Ok(Arc::new(file.ok_or_else(io::Error::last_os_error)?))
        };
        let files = ArenaFiles {
            pages: make(c"understudy-pages")?,
            index: make(c"understudy-index")?,
        };
        files
            .index
            .set_len(SUMS_OFFSET + MAX_FILE_SLOTS * SUM_BYTES as u64)?;
        files.pages.set_len(MAX_FILE_SLOTS * PAGE_SIZE as u64)?;
        Ok(files)
    }

    /// Returns the memory of all pages to the kernel; afterwards the pages read as zeros.
    ///
    /// # Errors
    /// Errors of fallocate(2).
    pub fn discard_pages(&self) -> io::Result<()> {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let bytes = (MAX_FILE_SLOTS * PAGE_SIZE as u64) as libc::off_t;
        // SAFETY: fallocate(2) with a descriptor that `self` owns.
        match unsafe { libc::fallocate(self.pages.as_raw_fd(), how, 0, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Maps the part of the index file below the checksums.
    ///
    /// # Errors
    /// [`StoreError::Reserve`] if the mapping fails.
    pub fn map_header(&self) -> Result<IndexHeader, StoreError> {
        let base = map_arena(None, SUMS_OFFSET as usize, Some((&*self.index, 0)))?;
        exclude_from_dumps(base, SUMS_OFFSET as usize, true);
        Ok(IndexHeader { base: base.cast() })
    }
}

/// Writable mapping of the first [`SUMS_OFFSET`] bytes of the index file.
#[derive(Debug)]
pub struct IndexHeader {
    base: *mut u8,
}

// SAFETY: only this value uses the mapping, and a mapping is not bound to a thread.
unsafe impl Send for IndexHeader {}

impl IndexHeader {
    /// Writes bytes at an offset, after all earlier writes.
    ///
    /// A process that adopts the files after the death of this one finds no write without the
    /// earlier ones. Compiler fences suffice: x86-64 keeps the order of stores, and the kernel
    /// keeps the memory of the files when a process dies.
    ///
    /// # Panics
    /// Panics if the bytes do not fit.
    pub fn write(&mut self, bytes: &[u8], at: u64) {
        assert!(
            at + bytes.len() as u64 <= SUMS_OFFSET,
            "outside of the header"
        );
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the assertion keeps the range inside of this mapping, which only this value
        // writes.
        unsafe {
            let to = self.base.add(at as usize);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for IndexHeader {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `map_header` with its length; `self` is not used
        // afterwards.
        unsafe { libc::munmap(self.base.cast(), SUMS_OFFSET as usize) };
    }
}

/// Checksums by slot.
#[derive(Debug)]
enum SlotSums {
    /// Checksums of an arena in private memory.
    Own(Vec<u64>),
    /// Mapping of the index file.
    Mapped(*mut u64),
}

/// Reserved memory of all slots.
#[derive(Debug)]
pub(super) struct Arena {
    base: *mut u8,
    /// Number of reserved slots.
    pub capacity: u64,
    /// Number of accessible slots.
    pub open: u64,
    sums: SlotSums,
}

// SAFETY: only the store that owns the arena uses it, and mappings are not bound to a thread.
unsafe impl Send for Arena {}

/// Maps a file from an offset on, or reserves addresses without access.
fn map_arena(
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
    // SAFETY: creates a new mapping; FIXED_NOREPLACE never replaces an existing one.
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

/// Excludes a mapping from core dumps and, with `dont_fork`, from forked children.
///
/// A core dump would touch, and thereby allocate, the unused pages.
fn exclude_from_dumps(base: *mut c_void, bytes: usize, dont_fork: bool) {
    // If the advice fails, core dumps are larger, and children inherit the mapping.
    // SAFETY: advice on a new mapping that no other code uses.
    unsafe {
        libc::madvise(base, bytes, libc::MADV_DONTDUMP);
        if dont_fork {
            libc::madvise(base, bytes, libc::MADV_DONTFORK);
        }
    }
}

impl Arena {
    pub fn new(config: StoreConfig, files: Option<ArenaFiles>) -> Result<Arena, StoreError> {
        let capacity = config.capacity_pages.next_multiple_of(GROW_STEP);
        let capacity = files
            .as_ref()
            .map_or(capacity, |_| capacity.min(MAX_FILE_SLOTS));
        let bytes = capacity as usize * PAGE_SIZE;
        let base = map_arena(
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
            None => arena(SlotSums::Own(Vec::new())),
            Some(files) => {
                let length = capacity as usize * SUM_BYTES;
                let mapped = map_arena(None, length, Some((&*files.index, SUMS_OFFSET)));
                // After an error, this temporary arena unmaps `base` when it is dropped.
                let mapped = mapped.inspect_err(|_| drop(arena(SlotSums::Own(Vec::new()))))?;
                exclude_from_dumps(mapped, length, config.dont_fork);
                arena(SlotSums::Mapped(mapped.cast()))
            }
        };
        exclude_from_dumps(base, bytes, config.dont_fork);
        // Hints for speed. With MADV_RANDOM the kernel does not mark each page of a file as
        // accessed when the process is torn down.
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_RANDOM] {
            // SAFETY: advice on the mapping created above, which no other code uses yet.
            unsafe { libc::madvise(base, bytes, advice) };
        }
        Ok(arena)
    }

    /// Returns the address of a slot.
    pub fn ptr(&self, slot: Slot) -> *mut u8 {
        assert!(slot.0 < self.capacity, "slot outside of the arena");
        self.base.wrapping_add(slot.0 as usize * PAGE_SIZE)
    }

    /// Returns the checksum of an open slot.
    pub fn sum(&self, slot: Slot) -> u64 {
        match &self.sums {
            SlotSums::Own(sums) => sums[slot.0 as usize],
            SlotSums::Mapped(sums) => {
                assert!(slot.0 < self.open, "a slot that is not open");
                // SAFETY: the mapped file contains a checksum for each open slot.
                unsafe { sums.add(slot.0 as usize).read() }
            }
        }
    }

    pub fn set_sum(&mut self, slot: Slot, sum: u64) {
        match &mut self.sums {
            SlotSums::Own(sums) => sums[slot.0 as usize] = sum,
            SlotSums::Mapped(sums) => {
                assert!(slot.0 < self.open, "a slot that is not open");
                // SAFETY: the mapped file contains a checksum for each open slot.
                unsafe { sums.add(slot.0 as usize).write(sum) };
            }
        }
    }

    /// Makes the slots below `end` accessible.
    pub fn open_up_to(&mut self, end: u64) -> Result<(), StoreError> {
        if end <= self.open {
            return Ok(());
        }
        let target = end.next_multiple_of(GROW_STEP).min(self.capacity);
        if let SlotSums::Own(sums) = &mut self.sums {
            let bytes = (target - self.open) as usize * PAGE_SIZE;
            let start = self.base.wrapping_add(self.open as usize * PAGE_SIZE);
            // SAFETY: the range lies in the arena, and no slot in it has been used.
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

    /// Returns the memory of slots to the kernel; afterwards the slots read as zeros.
    ///
    /// The slots are open, or belong to an arena in files, in which the call punches a hole
    /// (madvise(2)).
    pub fn dont_need(&self, first: Slot, pages: u64) -> Result<(), StoreError> {
        let bytes = pages as usize * PAGE_SIZE;
        let advice = match self.sums {
            SlotSums::Mapped(_) => libc::MADV_REMOVE,
            SlotSums::Own(_) => libc::MADV_DONTNEED,
        };
        // SAFETY: the callers pass slots whose content is not needed any more.
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
        // SAFETY: unmaps the mappings of `new` with their lengths; `self` is not used afterwards.
        unsafe {
            libc::munmap(self.base.cast(), self.capacity as usize * PAGE_SIZE);
            if let SlotSums::Mapped(sums) = self.sums {
                libc::munmap(sums.cast(), self.capacity as usize * SUM_BYTES);
            }
        }
    }
}
