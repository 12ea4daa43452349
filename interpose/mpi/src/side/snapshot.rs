//! The state of the MPI side at a moment, and the way back to it.
#![allow(unsafe_code)]

use super::side_error::Error;
use super::{descriptors, memory, modules, signals, thread, threads};
use crate::library;
use std::time::{Duration, Instant};

/// The MPI side at a moment.
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
    /// Until all threads had ended.
    pub threads: Duration,
    pub descriptors: Duration,
    /// Memory, and the rest.
    pub memory: Duration,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// To be called by the main thread, with no call of the library under way.
    pub fn take() -> Result<Snapshot, Error> {
        library::forget_error();
        // First the blocks of thread-local data are made: they are memory, too.
        let thread = thread::Saved::take()?;
        Ok(Snapshot {
            descriptors: descriptors::Saved::take(),
            modules: modules::Saved::take(),
            signals: signals::Saved::take(),
            memory: memory::Saved::take()?,
            thread,
        })
    }

    /// Bytes of memory that are kept.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Puts all of it back.
    ///
    /// # Safety
    /// The caller must be the thread that has taken the snapshot, in no call of the library, or in
    /// one that it never returns to. No pointer into the library's memory that was got since may be
    /// used again.
    pub unsafe fn put_back(&self) -> Result<Times, Error> {
        let begin = Instant::now();
        // A handler of the library's finds its memory as it was before, or as it is afterwards.
        let _blocked = signals::Blocked::new();
        // SAFETY: the library's threads are not needed again; nor is anything else below.
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
