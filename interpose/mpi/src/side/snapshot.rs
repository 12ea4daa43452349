//! Snapshot of the MPI side, and its restoration.
#![allow(unsafe_code)]

use super::side_error::Error;
use super::{descriptors, memory, modules, signals, thread, threads};
use crate::library;
use std::time::{Duration, Instant};

/// State of the MPI side at one moment.
pub struct Snapshot {
    memory: memory::Saved,
    descriptors: descriptors::Saved,
    modules: modules::Saved,
    thread: thread::Saved,
    signals: signals::Saved,
}

/// Durations of the parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Time until all threads had exited.
    pub threads: Duration,
    pub descriptors: Duration,
    /// Time for memory and thread-local data.
    pub memory: Duration,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// Must be called by the main thread, while no call of the library is active.
    pub fn take() -> Result<Snapshot, Error> {
        library::forget_error();
        // This allocates the blocks of thread-local data, which are part of the memory.
        let thread = thread::Saved::take()?;
        Ok(Snapshot {
            descriptors: descriptors::Saved::take(),
            modules: modules::Saved::take(),
            signals: signals::Saved::take(),
            memory: memory::Saved::take()?,
            thread,
        })
    }

    /// Returns the number of bytes of memory that are kept.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Resets the MPI side to the snapshot.
    ///
    /// # Safety
    /// The caller must be the thread that has taken the snapshot, and must not be in a call of the
    /// library, except one to which it never returns. Pointers into the library's memory that were
    /// received since must not be used any more.
    pub unsafe fn put_back(&self) -> Result<Times, Error> {
        let begin = Instant::now();
        // Signals are blocked, so a handler of the library never runs on partly restored memory.
        let _blocked = signals::Blocked::new();
        // SAFETY: the library's threads are not needed any more, nor is anything else that is reset
        // below.
        unsafe {
            threads::end_all()?;
            let ended = Instant::now();
            self.descriptors.put_back();
            self.signals.put_back();
            self.modules.put_back()?;
            let closed = Instant::now();
            self.memory.put_back()?;
            self.thread.put_back();
            Ok(Times {
                threads: ended - begin,
                descriptors: closed - ended,
                memory: closed.elapsed(),
            })
        }
    }
}
