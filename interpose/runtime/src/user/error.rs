//! Reasons for which the program cannot be saved or put back.

use super::accelerator::driver::DriverError;
use super::threads::deaf::Deaf;
use understudy_abi::RUNTIME_FD_BASE;

/// A rollback or a load failed; the message names cause and object.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The mappings cannot be read.
    #[error("the process's mappings cannot be read: {0}")]
    Maps(#[from] understudy_image::vmas::MapsError),
    /// The user side has threads.
    #[error(
        "the program runs {0} thread(s) of its own, which an understudy could not bring back; set OMP_NUM_THREADS=1 or run it with UNDERSTUDY_DISABLE=1"
    )]
    Threads(u32),
    /// What others than the main thread have done to files.
    #[error(
        "a thread of the program has made, opened for writing, renamed or removed files since the checkpoint when it had no turn for that; let the program ask for MPI_THREAD_SERIALIZED, or run it with UNDERSTUDY_THREADS=0"
    )]
    ThreadsFiles,
    /// They cannot be stopped.
    #[error("the program's threads cannot be stopped: {0}")]
    Deaf(Deaf),
    #[error(
        "the thread-local data of the program's threads cannot be saved or put back with this C library"
    )]
    Vectors,
    /// The kernel gives no thread.
    #[error("a thread of the program cannot be made again: {0}")]
    NoThread(std::io::Error),
    #[error(
        "the program's ranks share memory by other means than MPI ({0}), which cannot be saved for each of them alone; if it can do without, tell it so"
    )]
    SharedMemory(String),
    /// Memory of a pool.
    #[error(
        "the program has memory of huge pages that it has asked for by itself (MAP_HUGETLB, libhugetlbfs), which another process may not \
         get; let it use transparent ones (madvise with MADV_HUGEPAGE), or run it with UNDERSTUDY_DISABLE=1"
    )]
    HugePages,
    /// One object by two ways.
    #[error(
        "the program has a file without a name, {0}, open and mapped for sharing (MAP_SHARED), which an understudy could not bring back as \
         one file; let it close the descriptor when it has mapped it, or keep the file's name; or run it with UNDERSTUDY_DISABLE=1"
    )]
    OpenAndMapped(String),
    #[error(
        "the program uses protection keys (pkey_alloc), which an understudy could not have; let it do without, or run it with \
         UNDERSTUDY_DISABLE=1"
    )]
    ProtectionKeys,
    /// Device memory cannot be saved.
    #[error(
        "the program uses an accelerator ({device}), and its memory cannot be saved: {why}; or run the program with UNDERSTUDY_DISABLE=1"
    )]
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
    #[error("{path} cannot be put back to what it was at the checkpoint: {why}")]
    File { path: String, why: String },
    /// Something is open that cannot be saved.
    #[error(
        "the program has {path} open (descriptor {fd}), which cannot be saved: {why}; or run it with UNDERSTUDY_DISABLE=1"
    )]
    Descriptor {
        fd: i32,
        /// What the kernel calls it.
        path: String,
        why: String,
    },
    /// More is open than there are numbers for.
    #[error(
        "the program has {0}, and descriptors from {RUNTIME_FD_BASE} on are the layer's, so that its own cannot be saved; let it keep fewer open, by lower numbers, or run it with UNDERSTUDY_DISABLE=1"
    )]
    Descriptors(String),
    /// A library that was opened late.
    #[error(
        "{0}, which the program opened with dlopen, cannot be opened again as it was at the checkpoint; link the program with it or run it with UNDERSTUDY_DISABLE=1"
    )]
    Library(String),
    /// A library that was opened late, as soon as it is seen that this could not be done again.
    #[error(
        "the program has opened {0} with dlopen, and an understudy could not do the same ({1}); keep the file where it is, link the program with it, or run it with UNDERSTUDY_DISABLE=1"
    )]
    LateLibrary(String, &'static str),
    /// Thread-local storage lies elsewhere.
    #[error(
        "the thread-local storage of {0} lies at another address than in the rank that was saved"
    )]
    ThreadLocals(String),
    /// A part of the processor that is used by permission (ARCH_REQ_XCOMP_PERM).
    #[error(
        "the program uses the processor's tile registers (AMX), which this process is not given ({0}); have spares on nodes with the same processor and kernel"
    )]
    Processor(std::io::Error),
    /// Standard input cannot be read again.
    #[error(
        "the program has read standard input, and cannot read the same again as after the \
         checkpoint: {0}; let it read a file (mpirun … sh -c 'exec PROGRAM < FILE')"
    )]
    Input(String),
    /// State that the kernel keeps and that no other process could be given.
    #[error(
        "the program has {what}, which cannot be saved: {why}; or run it with UNDERSTUDY_DISABLE=1"
    )]
    KernelState {
        /// Name of the state.
        what: String,
        why: &'static str,
    },
    /// One that was made by timer_create(2).
    #[error("{0}")]
    Timer(String),
    /// A timer whose thread is not the program's, or not certainly glibc's.
    #[error(
        "the program has a timer for a thread that has ended or cannot be found (SIGEV_THREAD_ID, SIGEV_THREAD), which an understudy could not bring back; let it delete such timers or run it with UNDERSTUDY_DISABLE=1"
    )]
    TimerThread,
}
