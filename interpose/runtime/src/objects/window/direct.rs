//! Windows whose memory all members share: what a process does there by itself, and what it has left to the library.
//!
//! All accumulates on such a window are made by their origins under a lock of the target's (MPI 4.1, 12.7.1), whatever their
//! datatypes: the library's own would not know of it. A lock that somebody has died with is free in the next generation.
#![allow(unsafe_code)]

use super::{Window, get, index};
use crate::handles::VirtWin;
use crate::image::PAGE_SIZE;
use crate::image::shared;
use crate::objects::Runtime;
use crate::world;
use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_mpi::call;

/// Of each lock, for a cache line of its own.
const STRIDE: usize = 64;
const LOCKS: usize = PAGE_SIZE / STRIDE;
/// How often a lock is tried for before another process may run.
const SPINS: u32 = 100;
/// One flush in so many is the library's, so that it gets on with messages.
const PROGRESS: u32 = 64;

/// A window in this generation.
#[derive(Debug)]
pub struct Direct {
    /// Of its members' parts; none where they are on several nodes.
    locks: Option<Locks>,
    /// The library may have begun what it has not ended.
    is_busy: Cell<bool>,
    /// Flushes that it has not been asked for.
    flushes: Cell<u32>,
}

/// A mapping of the file of a window's locks.
#[derive(Debug)]
struct Locks(NonNull<AtomicU32>);

impl Locks {
    fn map(window: u64) -> io::Result<Locks> {
        let file = shared::open_locks(window, PAGE_SIZE as u64)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_SIZE, access, flags, file.as_raw_fd(), 0) };
        NonNull::new(at.cast())
            .filter(|_| at != libc::MAP_FAILED)
            .map(Locks)
            .ok_or_else(io::Error::last_os_error)
    }

    fn of(&self, rank: usize) -> &AtomicU32 {
        // SAFETY: a word of the mapping, which lives as long as `self`.
        unsafe { self.0.byte_add(rank % LOCKS * STRIDE).as_ref() }
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        // SAFETY: the mapping of above.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE_SIZE) };
    }
}

/// As long as it lives, nobody else accumulates in a member's part.
pub struct Locked<'a>(&'a AtomicU32);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

fn try_lock(word: &AtomicU32, held: u32) -> bool {
    let found = word.load(Ordering::Relaxed);
    found != held
        && word
            .compare_exchange_weak(found, held, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
}

#[cold]
fn wait(word: &AtomicU32, held: u32) -> bool {
    for spins in 1_u32.. {
        if call::is_over() {
            return false;
        }
        if try_lock(word, held) {
            return true;
        }
        std::hint::spin_loop();
        if spins.is_multiple_of(SPINS) {
            std::thread::yield_now();
        }
    }
    false
}

impl Direct {
    fn new(rt: &Runtime, window: &Window) -> io::Result<Direct> {
        let are_together = window.region.is_on_one_node(rt, &world::get(rt).players);
        let locks = are_together.then(|| Locks::map(window.region.window())).transpose()?;
        Ok(Direct {
            locks,
            is_busy: Cell::new(false),
            flushes: Cell::new(0),
        })
    }

    /// Whether accumulates are their origins'; the same in all members.
    pub fn has_locks(&self) -> bool {
        self.locks.is_some()
    }

    /// Waits for the lock of a member's part. Nothing, if this generation is over.
    #[inline]
    pub fn lock(&self, rank: usize) -> Option<Locked<'_>> {
        let word = self.locks.as_ref()?.of(rank);
        let held = call::wanted().0.wrapping_add(1);
        let is_free = !call::is_over() && try_lock(word, held);
        (is_free || wait(word, held)).then(|| Locked(word))
    }

    /// Whether a flush has nothing to wait for, and the library need not be asked for its progress either.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushes.set(self.flushes.get().wrapping_add(1));
        !self.is_busy.get() && !self.flushes.get().is_multiple_of(PROGRESS)
    }
}

/// A window whose memory this process has mapped.
///
/// # Errors
/// If the file of its locks cannot be.
pub fn direct(rt: &Runtime, win: VirtWin) -> io::Result<Option<Rc<Direct>>> {
    let Some(window) = get(rt, win).filter(|window| window.region.is_mapped()) else {
        return Ok(None);
    };
    let number = index(rt, win).unwrap_or_default();
    if let Some(known) = rt.direct.borrow().get(&number) {
        return Ok(Some(Rc::clone(known)));
    }
    let new = Rc::new(Direct::new(rt, &window)?);
    rt.direct.borrow_mut().insert(number, Rc::clone(&new));
    Ok(Some(new))
}

/// Whether a flush has nothing to wait for: of a rank, or of all.
pub fn is_flushed(rt: &Runtime, win: VirtWin, rank: Option<c_int>) -> bool {
    let is_passive = get(rt, win).is_some_and(|window| window.epochs.are_passive(rank));
    is_passive && matches!(direct(rt, win), Ok(Some(direct)) if direct.is_flushed())
}

/// Whether the library may have begun what it has not ended.
pub fn set_busy(rt: &Runtime, win: VirtWin, is: bool) {
    if let Ok(Some(direct)) = direct(rt, win) {
        direct.is_busy.set(is);
    }
}
