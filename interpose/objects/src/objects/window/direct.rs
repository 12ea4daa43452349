//! Locks and open epochs of windows whose memory this process has mapped.
//!
//! The origin of an accumulate performs the operation itself if all members of the window are on
//! one node: in the target's memory, under a lock of the target that makes the accumulate atomic
//! (MPI 4.1, 12.7.1). All accumulates on such a window use the lock, with any datatype, because an
//! accumulate of the library would not use it.
//!
//! The locks are words of a shared file. A taken lock contains the number of the owner's MPI
//! instance plus one. In any other instance this value means that the lock is free, so a lock whose
//! owner has failed needs no repair. The locks of passive target epochs ([`super::passive`]) are
//! further words of the file.
#![allow(unsafe_code)]

use super::epochs::LockKind;
use super::library_epochs::LibraryEpochs;
use super::locks::PassiveLock;
use super::rma_window::Window;
use std::cell::{Cell, RefCell, RefMut};
use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use understudy_image::{PAGE_SIZE, window_memory};
use understudy_job::Runtime;
use understudy_mpi::call;
use understudy_numbers::ProcessNumber;

/// Distance of two locks in bytes: a cache line for each.
const STRIDE: usize = 64;
/// Number of locks of accumulates, which targets share if there are more targets than locks.
const LOCKS: usize = PAGE_SIZE / STRIDE;
/// Number of attempts to take a lock before the processor is yielded.
const SPINS: u32 = 100;
/// Number of flushes and unlocks after which the library makes progress on messages.
const PROGRESS_INTERVAL: u32 = 1024;

/// Time for which a reader that has waited for a writer may pass other writers.
const WRITER_GRACE: Duration = Duration::from_millis(100);

/// Work that a flush requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushWork {
    Nothing,
    /// No wait, but the library makes progress on messages.
    Progress,
    /// A flush by the library, which completes its operations and reports errors.
    Library,
}

/// Directly accessible window in this MPI instance.
#[derive(Debug)]
pub struct DirectWindow {
    /// Locks of the members' parts; `None` if members are on several nodes.
    locks: Option<LockMapping>,
    /// True if the library may have started operations that are not complete.
    pub(super) is_busy: Cell<bool>,
    /// Number of flushes and unlocks that did not call the library.
    calls_without_library: Cell<u32>,
    /// Passive target epochs that are open in the library.
    library_epochs: RefCell<LibraryEpochs>,
    generation: u32,
    /// Time when this process last took a shared lock after waiting for a writer.
    last_wait_for_writer: Cell<Option<Instant>>,
}

/// Mapping of the file of a window's locks.
///
/// The first page contains the locks of accumulates; then follow the locks of epochs, one for each
/// member.
#[derive(Debug)]
struct LockMapping {
    at: NonNull<u8>,
    members: usize,
}

impl LockMapping {
    fn map(window: u64, members: usize) -> io::Result<LockMapping> {
        let bytes = LockMapping::bytes(members);
        let file = window_memory::open_locks(window, bytes as u64)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, which replaces no other mapping.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        NonNull::new(at.cast())
            .filter(|_| at != libc::MAP_FAILED)
            .map(|at| LockMapping { at, members })
            .ok_or_else(io::Error::last_os_error)
    }

    fn bytes(members: usize) -> usize {
        (PAGE_SIZE + members * STRIDE).next_multiple_of(PAGE_SIZE)
    }

    fn accumulate_lock(&self, rank: usize) -> &AtomicU32 {
        // SAFETY: an aligned word of the mapping, which exists as long as `self`; processes access
        // it by atomic operations only.
        unsafe { self.at.byte_add(rank % LOCKS * STRIDE).cast().as_ref() }
    }

    fn epoch_lock(&self, rank: usize) -> Option<&AtomicU64> {
        // SAFETY: an aligned word of the mapping, which has one word per member and lives as long
        // as `self`; processes access the word by atomic operations only.
        (rank < self.members)
            .then(|| unsafe { self.at.byte_add(PAGE_SIZE + rank * STRIDE).cast().as_ref() })
    }
}

impl Drop for LockMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` has created.
        unsafe { libc::munmap(self.at.as_ptr().cast(), LockMapping::bytes(self.members)) };
    }
}

/// Lock that excludes accumulates of other processes in a member's part.
///
/// The lock is released when this value is dropped.
pub struct AccumulateGuard<'a>(&'a AtomicU32);

impl Drop for AccumulateGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Takes a lock if its word differs from `taken`, the value of a taken lock.
///
/// Any other value is free: zero, or the value of a former instance.
#[inline]
fn try_lock(word: &AtomicU32, taken: u32) -> bool {
    let found = word.load(Ordering::Relaxed);
    found != taken
        && word
            .compare_exchange_weak(found, taken, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
}

/// Waits for a lock; returns false if this MPI instance has ended.
#[cold]
fn wait(word: &AtomicU32, taken: u32) -> bool {
    for spins in 1_u32.. {
        if call::is_over() {
            return false;
        }
        if try_lock(word, taken) {
            return true;
        }
        std::hint::spin_loop();
        if spins.is_multiple_of(SPINS) {
            std::thread::yield_now();
        }
    }
    false
}

impl DirectWindow {
    pub(super) fn new(
        rt: &Runtime,
        window: &Window,
        processes: &[ProcessNumber],
    ) -> io::Result<DirectWindow> {
        let are_together = window.region.is_on_one_node(rt, processes);
        let map = || LockMapping::map(window.region.window(), window.region.members());
        let locks = are_together.then(map).transpose()?;
        Ok(DirectWindow {
            locks,
            is_busy: Cell::new(false),
            calls_without_library: Cell::new(0),
            library_epochs: RefCell::default(),
            generation: call::own_instance().0,
            last_wait_for_writer: Cell::new(None),
        })
    }

    /// True if origins perform accumulates, under the runtime's locks; equal in all members.
    #[inline]
    pub fn has_locks(&self) -> bool {
        self.locks.is_some()
    }

    /// Waits for the lock of accumulates on a member's part.
    ///
    /// `None` if this MPI instance has ended or the window has no [locks](Self::has_locks).
    #[inline(always)]
    pub fn lock(&self, rank: usize) -> Option<AccumulateGuard<'_>> {
        let word = self.locks.as_ref()?.accumulate_lock(rank);
        let taken = call::required_instance().0.wrapping_add(1);
        let is_free = !call::is_over() && try_lock(word, taken);
        (is_free || wait(word, taken)).then(|| AccumulateGuard(word))
    }

    #[inline]
    fn epoch_lock(&self, rank: c_int) -> Option<PassiveLock<'_>> {
        let word = self
            .locks
            .as_ref()?
            .epoch_lock(usize::try_from(rank).ok()?)?;
        Some(PassiveLock::new(word, self.generation))
    }

    /// Takes a member's epoch lock if no held lock excludes it and no writer waits.
    ///
    /// Returns false if the lock was not taken or the member does not exist.
    #[inline]
    pub fn take_free(&self, rank: c_int, kind: LockKind) -> bool {
        self.epoch_lock(rank)
            .is_some_and(|lock| lock.take_free(kind))
    }

    /// Takes a member's epoch lock if no held lock excludes it.
    ///
    /// Returns false if the lock was not taken or the member does not exist. A reader waits for a
    /// waiting writer, so that readers cannot exclude writers forever. A reader that `has_waited`
    /// may then pass other writers for [`WRITER_GRACE`].
    pub fn take(&self, rank: c_int, kind: LockKind, has_waited: bool) -> bool {
        let Some(lock) = self.epoch_lock(rank) else {
            return false;
        };
        lock.take(kind, false)
            || kind == LockKind::Shared && self.take_after_writer(lock, has_waited)
    }

    /// Takes a shared lock for which a writer may wait.
    #[cold]
    fn take_after_writer(&self, lock: PassiveLock<'_>, has_waited: bool) -> bool {
        if self
            .last_wait_for_writer
            .get()
            .is_some_and(|then| then.elapsed() < WRITER_GRACE)
        {
            return lock.take(LockKind::Shared, true);
        }
        let is_taken = has_waited && lock.take(LockKind::Shared, true);
        if is_taken {
            self.last_wait_for_writer.set(Some(Instant::now()));
        }
        is_taken
    }

    /// Takes the epoch locks of all members, or none of them.
    pub fn take_all(&self, kind: LockKind, has_waited: bool) -> bool {
        let missed = self
            .members()
            .find(|&rank| !self.take(rank, kind, has_waited));
        if let Some(missed) = missed {
            (0..missed).for_each(|rank| self.release(rank, kind));
        }
        missed.is_none()
    }

    pub fn release_all(&self, kind: LockKind) {
        self.members().for_each(|rank| self.release(rank, kind));
    }

    /// Releases the epoch lock of a member's part.
    #[inline]
    pub fn release(&self, rank: c_int, kind: LockKind) {
        if let Some(lock) = self.epoch_lock(rank) {
            lock.release(kind);
        }
    }

    /// Returns the ranks with locks; empty if members are on several nodes.
    pub fn members(&self) -> Range<c_int> {
        0..self
            .locks
            .as_ref()
            .map_or(0, |locks| locks.members as c_int)
    }

    /// Borrows the set of passive target epochs that are open in the library.
    #[inline]
    pub fn library_epochs(&self) -> RefMut<'_, LibraryEpochs> {
        self.library_epochs.borrow_mut()
    }

    /// Counts a call, and returns true if it need not make progress in the library.
    #[inline]
    pub fn skip_progress(&self) -> bool {
        self.calls_without_library
            .set(self.calls_without_library.get().wrapping_add(1));
        !self
            .calls_without_library
            .get()
            .is_multiple_of(PROGRESS_INTERVAL)
    }

    #[inline]
    pub(super) fn flush(&self) -> FlushWork {
        match (self.skip_progress(), self.is_busy.get()) {
            (_, true) => FlushWork::Library,
            (false, false) => FlushWork::Progress,
            (true, false) => FlushWork::Nothing,
        }
    }
}
