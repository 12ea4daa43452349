//! Errors of an MPI side that cannot be reset.

use understudy_catalogue::message;

/// Reason for which the MPI side cannot be reset.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// The mappings of the process cannot be read.
    #[error("the mappings of this process cannot be read from /proc/self/maps")]
    Mappings(#[source] std::io::Error),
    /// A mapping of a file or shared memory has been removed, and cannot be recreated.
    #[error("the MPI library has unmapped a file or shared memory at {0:#x}")]
    MappingRemoved(usize),
    /// A mapping cannot be created, removed or protected as before.
    #[error("memory of the MPI library at {0:#x} cannot be mapped, unmapped or protected")]
    Map(usize, #[source] std::io::Error),
    /// The C library's description of its threads for debuggers is missing or unexpected.
    #[error("this C library does not describe its threads as expected (nptl_db)")]
    UnknownThreads,
    /// A thread does not exit.
    #[error("{}", message::mpi_thread_stays(.0))]
    ThreadStays(i32),
    /// A library that was opened after the snapshot is still loaded.
    #[error("{}", message::mpi_file_stays_open(.0))]
    LibraryOpened(String),
}
