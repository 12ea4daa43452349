//! Reasons for which the program cannot be saved or put back.

use super::accelerator::driver::DriverError;
use super::threads::deaf::Deaf;
use understudy_abi::RUNTIME_FD_BASE;
use understudy_catalogue::message;

/// A rollback or a load failed; the message names cause and object.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The mappings cannot be read.
    #[error("{}", message::mappings_unreadable(.0))]
    Maps(#[from] understudy_image::vmas::MapsError),
    /// The user side has threads.
    #[error(
        "{}", message::threads_unsupported(.0))]
    Threads(u32),
    /// What others than the main thread have done to files.
    #[error("{}", message::FILES_OF_THREADS)]
    ThreadsFiles,
    /// They cannot be stopped.
    #[error("{}", message::threads_cannot_be_stopped(.0))]
    Deaf(Deaf),
    #[error("{}", message::THREAD_DATA_UNKNOWN)]
    Vectors,
    /// The kernel gives no thread.
    #[error("{}", message::thread_not_restored(.0))]
    NoThread(std::io::Error),
    #[error(
        "{}", message::shared_memory_of_program(.0))]
    SharedMemory(String),
    /// Memory of a pool.
    #[error("{}", message::HUGE_PAGES)]
    HugePages,
    /// One object by two ways.
    #[error(
        "{}", message::file_open_and_mapped(.0))]
    OpenAndMapped(String),
    #[error("{}", message::PROTECTION_KEYS)]
    ProtectionKeys,
    /// Device memory cannot be saved.
    #[error(
        "{}", message::accelerator_not_saved(.device, .why))]
    Accelerator {
        /// The first device that is open, or the driver's library.
        device: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// Device memory was saved, and does not come back.
    #[error("{0}")]
    DeviceLost(DriverError),
    /// A file cannot be put back.
    #[error("{}", message::file_not_restored(.path, .why))]
    File { path: String, why: String },
    /// Something is open that cannot be saved.
    #[error(
        "{}", message::descriptor_refused(.path, .fd, .why))]
    Descriptor {
        fd: i32,
        /// What the kernel calls it.
        path: String,
        why: String,
    },
    /// More is open than there are numbers for.
    #[error(
        "{}", message::descriptor_numbers(.0, RUNTIME_FD_BASE))]
    Descriptors(String),
    /// A library that was opened late.
    #[error(
        "{}", message::library_not_reopened(.0))]
    Library(String),
    /// A library that was opened late, as soon as it is seen that this could not be done again.
    #[error(
        "{}", message::dlopen_refused(.0, .1))]
    LateLibrary(String, &'static str),
    /// Thread-local storage lies elsewhere.
    #[error(
        "{}", message::thread_local_storage_moved(.0))]
    ThreadLocals(String),
    /// A part of the processor that is used by permission (ARCH_REQ_XCOMP_PERM).
    #[error(
        "{}", message::tile_registers(.0))]
    Processor(std::io::Error),
    /// Standard input cannot be read again.
    #[error(
        "{}", message::input_not_repeated(.0))]
    Input(String),
    /// State that the kernel keeps and that no other process could be given.
    #[error(
        "{}", message::kernel_state_refused(.what, .why))]
    KernelState {
        /// Name of the state.
        what: String,
        why: &'static str,
    },
    /// One that was made by timer_create(2).
    #[error("{0}")]
    Timer(String),
    /// A timer whose thread is not the program's, or not certainly glibc's.
    #[error("{}", message::TIMER_REFUSED)]
    TimerThread,
}
