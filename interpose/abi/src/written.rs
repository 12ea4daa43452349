//! What is known of the program's descriptors, so that most writes need not be told: those that
//! overwrite nothing.

use crate::address_map::RUNTIME_FD_BASE;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Start of the names of backups of files that the program changes.
pub const BACKUP_PREFIX: &str = ".understudy-";

const UNKNOWN: u64 = 0;
/// Writes need not be told: no regular file, or they go to its end.
const UNTOLD: u64 = 1;
/// More than this: the size of a file, and [`FILE`].
const FILE: u64 = 2;

/// What face and runtime share of it. It lies on the runtime side: it does not roll back.
#[repr(C)]
pub struct Written {
    /// Not 0: overwriting is to be told.
    is_told: AtomicU32,
    /// Nonzero while a call that makes a name has not returned.
    is_name_awaited: AtomicU32,
    /// Process that notes effects of its children; 0 if none does.
    parent: AtomicI32,
    /// Inode of that process's pid namespace.
    namespace: AtomicU64,
    /// The highest descriptor that the program has been given since the cut, if that is one of the
    /// layer's; else 0.
    highest: AtomicI32,
    known: [AtomicU64; RUNTIME_FD_BASE as usize],
}

/// What is known of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Unknown,
    /// Writes to it overwrite nothing.
    Untold,
    /// A regular file; what lies from this size on was not there at the cut, or others have told of
    /// it.
    File(i64),
}

impl Written {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Written {
        Written {
            is_told: AtomicU32::new(0),
            is_name_awaited: AtomicU32::new(0),
            parent: AtomicI32::new(0),
            namespace: AtomicU64::new(0),
            highest: AtomicI32::new(0),
            known: [const { AtomicU64::new(UNKNOWN) }; RUNTIME_FD_BASE as usize],
        }
    }

    /// Forgets what is known, at a cut or after a rollback; all threads are stopped.
    pub fn begin(&self, is_told: bool) {
        self.known
            .iter()
            .for_each(|known| known.store(UNKNOWN, Ordering::Relaxed));
        self.highest.store(0, Ordering::Relaxed);
        self.await_name(false);
        self.is_told.store(u32::from(is_told), Ordering::Relaxed);
    }

    /// Returns true if effects are noted.
    pub fn is_noting(&self) -> bool {
        self.is_told.load(Ordering::Relaxed) != 0
    }

    /// Sets the process that notes effects of its children, and its namespace; 0 for none.
    pub fn set_parent(&self, process: i32, namespace: u64) {
        self.namespace.store(namespace, Ordering::Relaxed);
        self.parent.store(process, Ordering::Relaxed);
    }

    /// Returns the process that notes effects of its children, and its namespace.
    pub fn parent(&self) -> Option<(i32, u64)> {
        let process = self.parent.load(Ordering::Relaxed);
        (process != 0).then(|| (process, self.namespace.load(Ordering::Relaxed)))
    }

    /// Sets if the return of a call that makes a name is to be reported.
    pub fn await_name(&self, is_awaited: bool) {
        let value = u32::from(is_awaited);
        self.is_name_awaited.store(value, Ordering::Relaxed);
    }

    /// Returns true if the return of a call is to be reported.
    #[inline]
    pub fn is_name_awaited(&self) -> bool {
        self.is_name_awaited.load(Ordering::Relaxed) != 0
    }

    /// What is known of a descriptor.
    #[inline]
    pub fn of(&self, fd: i32) -> Known {
        if self.is_told.load(Ordering::Relaxed) == 0 {
            return Known::Untold;
        }
        match self
            .known
            .get(fd as usize)
            .map(|known| known.load(Ordering::Relaxed))
        {
            None | Some(UNTOLD) => Known::Untold,
            Some(UNKNOWN) => Known::Unknown,
            Some(file) => Known::File((file - FILE) as i64),
        }
    }

    /// The program has been given a descriptor.
    pub fn made(&self, fd: i32) {
        if fd >= RUNTIME_FD_BASE {
            self.highest.fetch_max(fd, Ordering::Relaxed);
        }
        self.learn(fd, Known::Unknown);
    }

    /// A descriptor of the program's that is one of the layer's numbers.
    pub fn highest(&self) -> Option<i32> {
        Some(self.highest.load(Ordering::Relaxed)).filter(|&fd| fd > 0)
    }

    /// It has become known.
    pub fn learn(&self, fd: i32, what: Known) {
        if let Some(known) = self.known.get(fd as usize) {
            let value = match what {
                Known::Unknown => UNKNOWN,
                Known::Untold => UNTOLD,
                Known::File(size) => size.max(0) as u64 + FILE,
            };
            known.store(value, Ordering::Relaxed);
        }
    }
}
