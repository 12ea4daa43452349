//! Snapshot of the MPI side, and its restoration.
#![allow(unsafe_code)]

use super::side_error::ResetError;
use super::{descriptors, memory, modules, signals, thread, threads};
use crate::library;
use std::time::{Duration, Instant};

/// State of the MPI side at one moment.
pub struct Snapshot {
    memory: memory::SavedMemory,
    descriptors: descriptors::SavedDescriptors,
    modules: modules::SavedModules,
    thread: thread::SavedThreadState,
    signals: signals::SavedSignals,
}

/// Durations of the steps of a reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResetTimes {
    /// Time until all threads of the MPI side had exited.
    pub threads: Duration,
    /// Time for descriptors, signal handlers, and the check that no new library is loaded.
    pub descriptors: Duration,
    /// Time for memory and thread-local data.
    pub memory: Duration,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// Must be called by the main thread, while no call of the library is active.
    pub fn take() -> Result<Snapshot, ResetError> {
        // A text of dlerror(3) in the snapshot would be freed again after each reset.
        library::release_error();
        // The thread's state is saved before the memory, because saving the state allocates
        // missing blocks of thread-local data, which the memory snapshot must contain.
        let thread = thread::SavedThreadState::take()?;
        Ok(Snapshot {
            descriptors: descriptors::SavedDescriptors::take(),
            modules: modules::SavedModules::take(),
            signals: signals::SavedSignals::take(),
            memory: memory::SavedMemory::take()?,
            thread,
        })
    }

    /// Returns the number of bytes of saved memory.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Resets the MPI side to the snapshot.
    ///
    /// # Safety
    /// The caller must be the thread that has taken the snapshot. Calls of the library that are on
    /// the caller's stack must never continue. Pointers that the library has returned after the
    /// snapshot must not be used any more.
    pub unsafe fn restore(&self) -> Result<ResetTimes, ResetError> {
        let begin = Instant::now();
        // Signals are blocked, so a handler of the library never runs on partly restored memory.
        let _blocked = signals::SignalGuard::new();
        // SAFETY: by the caller's contract, no code uses the library's threads, descriptors and
        // memory any more. The threads are terminated first, so none runs while the rest is reset.
        unsafe {
            threads::end_all()?;
            let threads_done = Instant::now();
            self.descriptors.put_back();
            self.signals.put_back();
            self.modules.check_none_opened()?;
            let descriptors_done = Instant::now();
            self.memory.put_back()?;
            self.thread.put_back();
            Ok(ResetTimes {
                threads: threads_done - begin,
                descriptors: descriptors_done - threads_done,
                memory: descriptors_done.elapsed(),
            })
        }
    }
}
