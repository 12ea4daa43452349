//! Errors of the MPI side that cannot be put back.

use understudy_catalogue::message;

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
    #[error("{}", message::mpi_thread_stays(.0))]
    Deaf(i32),
    /// ld.so is in the middle of something.
    #[error("{}", message::MPI_THREAD_HELD_LOCK)]
    Locked,
    /// A library that was opened since stays open.
    #[error("{}", message::mpi_file_stays_open(.0))]
    Opened(String),
}
