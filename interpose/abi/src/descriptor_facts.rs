//! Cached facts about the program's descriptors.
//!
//! A write must be reported to the runtime before it replaces bytes that existed at the last cut,
//! because a rollback has to restore these bytes. Most writes append to a file, or go to a pipe or
//! a terminal. The facts let the preload library recognise such writes without a call of the
//! runtime.

use crate::address_map::RUNTIME_FD_BASE;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Start of the names of backups of files that the program changes.
pub const BACKUP_PREFIX: &str = ".understudy-";

const UNKNOWN: u64 = 0;
/// Value for descriptors whose writes need no report.
///
/// The file is not a regular one, or was opened to append.
const UNREPORTED: u64 = 1;
/// First value that stands for a regular file.
///
/// The value of a file is this number plus the offset in [`DescriptorFact::File`].
const FILE: u64 = 2;

/// Facts that the preload library and the runtime share.
///
/// The facts are on the runtime side and are not rolled back.
#[repr(C)]
pub struct DescriptorFacts {
    /// Nonzero if overwriting must be reported.
    reports_overwrites: AtomicU32,
    /// Nonzero while a call that can create a file name has not returned.
    is_name_awaited: AtomicU32,
    /// Number of the rank's process, to which its children report effects; zero if none.
    parent: AtomicI32,
    /// Inode of the pid namespace of the process in `parent`.
    namespace: AtomicU64,
    /// Highest descriptor from [`RUNTIME_FD_BASE`] on that the program has opened since the cut.
    ///
    /// Zero if the program has opened no such descriptor.
    highest: AtomicI32,
    facts: [AtomicU64; RUNTIME_FD_BASE as usize],
}

/// Facts about one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorFact {
    Unknown,
    /// Writes to the descriptor overwrite nothing.
    Unreported,
    /// Regular file, and the offset from which on writes need no report.
    ///
    /// The bytes from this offset on did not exist at the cut, or their loss has been reported.
    File(i64),
}

impl DescriptorFacts {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> DescriptorFacts {
        DescriptorFacts {
            reports_overwrites: AtomicU32::new(0),
            is_name_awaited: AtomicU32::new(0),
            parent: AtomicI32::new(0),
            namespace: AtomicU64::new(0),
            highest: AtomicI32::new(0),
            facts: [const { AtomicU64::new(UNKNOWN) }; RUNTIME_FD_BASE as usize],
        }
    }

    /// Discards all facts, and enables or disables reports.
    ///
    /// Called at a cut or after a rollback, while all threads of the program are stopped.
    pub fn reset(&self, reports_overwrites: bool) {
        self.facts
            .iter()
            .for_each(|fact| fact.store(UNKNOWN, Ordering::Relaxed));
        self.highest.store(0, Ordering::Relaxed);
        self.await_name(false);
        self.reports_overwrites
            .store(u32::from(reports_overwrites), Ordering::Relaxed);
    }

    /// Returns true if effects are recorded.
    pub fn is_recording(&self) -> bool {
        self.reports_overwrites.load(Ordering::Relaxed) != 0
    }

    /// Sets the process to which children report effects, and the inode of its pid namespace.
    ///
    /// Process 0 ends the reports.
    pub fn set_parent(&self, process: i32, namespace: u64) {
        self.namespace.store(namespace, Ordering::Relaxed);
        self.parent.store(process, Ordering::Relaxed);
    }

    /// Returns the process to which children report effects, and the inode of its pid namespace.
    pub fn parent(&self) -> Option<(i32, u64)> {
        let process = self.parent.load(Ordering::Relaxed);
        (process != 0).then(|| (process, self.namespace.load(Ordering::Relaxed)))
    }

    /// Enables or disables reports of the return of calls that can create a name.
    pub fn await_name(&self, is_awaited: bool) {
        let value = u32::from(is_awaited);
        self.is_name_awaited.store(value, Ordering::Relaxed);
    }

    /// Returns true if returns of calls that can create a name must be reported.
    #[inline]
    pub fn is_name_awaited(&self) -> bool {
        self.is_name_awaited.load(Ordering::Relaxed) != 0
    }

    /// Returns the facts about a descriptor.
    #[inline]
    pub fn get(&self, fd: i32) -> DescriptorFact {
        if self.reports_overwrites.load(Ordering::Relaxed) == 0 {
            return DescriptorFact::Unreported;
        }
        match self
            .facts
            .get(fd as usize)
            .map(|fact| fact.load(Ordering::Relaxed))
        {
            None | Some(UNREPORTED) => DescriptorFact::Unreported,
            Some(UNKNOWN) => DescriptorFact::Unknown,
            Some(value) => DescriptorFact::File((value - FILE) as i64),
        }
    }

    /// Records a new descriptor of the program.
    pub fn record_new(&self, fd: i32) {
        if fd >= RUNTIME_FD_BASE {
            self.highest.fetch_max(fd, Ordering::Relaxed);
        }
        self.set(fd, DescriptorFact::Unknown);
    }

    /// Returns the program's highest descriptor in the range of understudy's numbers.
    pub fn highest(&self) -> Option<i32> {
        Some(self.highest.load(Ordering::Relaxed)).filter(|&fd| fd > 0)
    }

    /// Sets the facts about a descriptor.
    pub fn set(&self, fd: i32, fact: DescriptorFact) {
        if let Some(entry) = self.facts.get(fd as usize) {
            let value = match fact {
                DescriptorFact::Unknown => UNKNOWN,
                DescriptorFact::Unreported => UNREPORTED,
                DescriptorFact::File(size) => size.max(0) as u64 + FILE,
            };
            entry.store(value, Ordering::Relaxed);
        }
    }
}
