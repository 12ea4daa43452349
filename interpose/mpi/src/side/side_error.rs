//! Errors of the MPI side that cannot be put back.

/// Reason for which the MPI side cannot be put back.
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
