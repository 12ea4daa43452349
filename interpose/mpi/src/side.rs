//! The MPI side as a thing that can be put back: all that the library, its threads and its libc have made of the process.
//!
//! A [`Snapshot`] is taken before the first `MPI_Init`. [`Snapshot::put_back`] leads back to that moment, wherever the
//! library was: in a call that was abandoned, with threads of its own, in the middle of a failure of its peers. After it
//! the library can be initialised again, in another world. Nothing of the program or the runtime is touched.
//!
//! ```text
//!   threads       those whose stacks lie in the library's half of the zone are ended     (threads)
//!   descriptors   those from MPI_FD_BASE on are closed, but what was open then           (descriptors)
//!   signals       handlers of that side are replaced by what was there                   (signals)
//!   libraries     those that it has opened since are closed, without destructors         (modules)
//!   memory        what was mapped since is unmapped, what was writable is written back   (memory)
//!   the caller    its thread-local data, keys and cancellation state of that side        (thread)
//! ```
//!
//! What cannot be put back is an [`Error`]: the process is no use as a rank any more, and must end.
#![allow(unsafe_code)]

mod descriptors;
mod memory;
mod modules;
pub(crate) mod signals;
mod thread;
mod threads;

use crate::library;
use std::time::{Duration, Instant};
use understudy_abi::{MPI_ZONE_START, ZONE_END};

/// Why the MPI side cannot be put back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its mappings cannot be read.
    #[error("the mappings of this process cannot be read")]
    Mappings(#[source] std::io::Error),
    /// A mapping has gone that held data of a file.
    #[error("the MPI library has unmapped data of its own at {0:#x}")]
    Gone(usize),
    /// A mapping cannot be made or removed.
    #[error("memory of the MPI library at {0:#x} cannot be mapped")]
    Map(usize, #[source] std::io::Error),
    /// The C library has no description of its threads for debuggers, or another one.
    #[error("this C library does not describe its threads as expected (nptl_db)")]
    UnknownThreads,
    /// A thread does not end.
    #[error("thread {0} of the MPI library does not end")]
    Deaf(i32),
    /// ld.so is in the middle of something.
    #[error("a thread of the MPI library has ended while it held a lock of the dynamic linker")]
    Locked,
    /// A library that was opened since stays open.
    #[error("{0}, which the MPI library has opened, cannot be closed")]
    Opened(String),
}

/// Whether an address lies in the library's half of the zone.
pub(crate) fn is_mpi(address: usize) -> bool {
    (MPI_ZONE_START..ZONE_END).contains(&address)
}

/// The MPI side at a moment.
pub struct Snapshot {
    memory: memory::Saved,
    descriptors: descriptors::Saved,
    modules: modules::Saved,
    thread: thread::Saved,
    signals: signals::Saved,
}

/// How long each part has taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Until all threads had ended.
    pub threads: Duration,
    pub descriptors: Duration,
    /// Memory, and the rest.
    pub memory: Duration,
}

impl Snapshot {
    /// Notes what there is. To be called by the main thread, with no call of the library under way.
    pub fn take() -> Result<Snapshot, Error> {
        library::forget_error();
        // The blocks of thread-local data are made first: they are memory, too.
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
    /// The caller must be the thread that has taken the snapshot, in no call of the library, or in one that it never returns
    /// to. No pointer into the library's memory that was got since may be used again.
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
