//! Reasons for which the program cannot be saved or restored.

use super::accelerator::driver::DriverError;
use super::threads::stop_error::StopError;
use understudy_abi::RUNTIME_FD_BASE;
use understudy_catalogue::message;

/// Failure of a check, a rollback or a load; the message names cause and object.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The mappings cannot be read.
    #[error("{}", message::mappings_unreadable(.0))]
    Maps(#[from] understudy_image::vmas::MapsError),
    /// Threads of the program, which cannot be restored.
    #[error(
        "{}", message::threads_unsupported(.0))]
    Threads(u32),
    /// Effects on files of threads other than the main thread.
    #[error("{}", message::FILES_OF_THREADS)]
    FilesOfThreads,
    /// Threads that cannot be stopped.
    #[error("{}", message::threads_cannot_be_stopped(.0))]
    ThreadsNotStopped(StopError),
    #[error("{}", message::THREAD_DATA_UNKNOWN)]
    ThreadDataUnknown,
    /// The kernel creates no thread.
    #[error("{}", message::thread_not_restored(.0))]
    NoThread(std::io::Error),
    #[error(
        "{}", message::shared_memory_of_program(.0))]
    SharedMemory(String),
    /// Huge pages of a pool (MAP_HUGETLB, libhugetlbfs).
    #[error("{}", message::HUGE_PAGES)]
    HugePages,
    /// File without a name that is both open and mapped.
    #[error(
        "{}", message::file_open_and_mapped(.0))]
    OpenAndMapped(String),
    #[error("{}", message::PROTECTION_KEYS)]
    ProtectionKeys,
    /// Device memory cannot be saved.
    #[error(
        "{}", message::accelerator_not_saved(.device, .why))]
    Accelerator {
        /// The first open device, or the driver's library.
        device: String,
        /// Missing feature, and the remedy.
        why: String,
    },
    /// Saved device memory that cannot be restored.
    #[error("{0}")]
    DeviceLost(DriverError),
    /// File that cannot be restored.
    #[error("{}", message::file_not_restored(.path, .why))]
    File { path: String, why: String },
    /// Open descriptor that cannot be saved.
    #[error(
        "{}", message::descriptor_refused(.path, .fd, .why))]
    Descriptor {
        fd: i32,
        /// The kernel's name of the open object.
        path: String,
        why: String,
    },
    /// Descriptors from [`RUNTIME_FD_BASE`] on, which are reserved for understudy.
    #[error(
        "{}", message::descriptor_numbers(.0, RUNTIME_FD_BASE))]
    Descriptors(String),
    /// Library of dlopen(3) that cannot be reopened as it was at the checkpoint.
    #[error(
        "{}", message::library_not_reopened(.0))]
    Library(String),
    /// Library of dlopen(3) that a replacement could not open.
    ///
    /// The library is refused as soon as it is detected.
    #[error(
        "{}", message::dlopen_refused(.0, .1))]
    LateLibrary(String, &'static str),
    /// Thread-local storage at a different address.
    #[error(
        "{}", message::thread_local_storage_moved(.0))]
    ThreadLocals(String),
    /// Processor state that needs permission (ARCH_REQ_XCOMP_PERM), which was not granted.
    #[error(
        "{}", message::tile_registers(.0))]
    Processor(std::io::Error),
    /// Standard input that cannot be read a second time.
    #[error(
        "{}", message::input_not_repeated(.0))]
    Input(String),
    /// State in the kernel that another process cannot be given.
    #[error(
        "{}", message::kernel_state_refused(.what, .why))]
    KernelState {
        /// Name of the state.
        what: String,
        why: &'static str,
    },
    /// Timer of timer_create(2) that could not be restored.
    #[error("{0}")]
    Timer(String),
    /// Timer whose thread is not the program's, or cannot be identified as glibc's.
    #[error("{}", message::TIMER_REFUSED)]
    TimerThread,
}
