//! MPI lock, for programs in which several threads may call MPI.

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

/// Number of procedures that may be called at any time (MPI 4.1, 11.6.1).
pub const QUERY_COUNT: usize = 6;

/// Signals that a thread does not block while it has the MPI lock.
///
/// The signals are SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV; signal 32, which makes the thread
/// abandon its call of the MPI library; and signal 33, which ends threads of the MPI library. Such
/// threads inherit the mask of the thread that has created them.
pub const UNBLOCKED_SIGNALS: u64 = 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 31 | 1 << 32;

/// Value of [`MpiLock::saved_mask`] if the mask is unchanged: the bit of SIGKILL.
///
/// SIGKILL cannot be blocked, so no real mask has this value.
pub const MASK_UNCHANGED: u64 = 1 << 8;

/// Work flag: the program has more than one thread.
pub const MULTIPLE_THREADS: u8 = 16;

/// State of the MPI lock that the preload library and the runtime share.
///
/// The state is on the runtime side and is not rolled back. The thread that has the lock runs on
/// the runtime's stack, with the main thread's thread-local data. If this is not the main thread, a
/// signal handler of the program would find the wrong thread-local data. Therefore either nearly
/// all signals are blocked in the thread, or the program has no handlers.
///
/// The preload library's frame of a call that has acquired the lock stores the arguments in the 64
/// bytes below the saved frame pointer:
///
/// ```text
///   rbp → caller's rbp
///   rbp - 8 … rbp - 48: rdi rsi rdx rcx r8 r9
///   rbp - 56: slot
///   rbp - 64: nonzero if the call is nested
/// ```
#[repr(C)]
pub struct MpiLock {
    /// Zero if no thread has the lock.
    pub lock: AtomicU32,
    /// Futex word; nonzero if threads may be waiting for the lock.
    pub has_waiters: AtomicU32,
    /// Nonzero if calls take the lock, and any thread may take it.
    pub is_shared: AtomicU32,
    /// Control block (fs register) of the thread that has the lock; zero if none has.
    pub owner: AtomicUsize,
    /// Nonzero if programs may write the fs register themselves.
    ///
    /// The kernel permits this with HWCAP2_FSGSBASE (Documentation/arch/x86/x86_64/fsgs.rst).
    pub may_write_fs: AtomicU32,
    /// Number (gettid(2)) of the thread that has the lock; zero for the main thread.
    pub owner_thread: AtomicI32,
    /// Offset in bytes of the thread number in a control block; zero if unknown.
    pub thread_number_offset: AtomicUsize,
    /// Nonzero if the program handles signals that are not in [`UNBLOCKED_SIGNALS`].
    pub has_handlers: AtomicU32,
    /// Signal mask that the thread had before nearly all signals were blocked, or
    /// [`MASK_UNCHANGED`].
    pub saved_mask: AtomicU64,
    /// Word of the runtime that receives the number of the thread with the lock.
    ///
    /// The main thread's number is stored as 1.
    pub owner_thread_word: AtomicPtr<AtomicU32>,
    /// Nonzero in a replacement that has threads which the failed process had created.
    pub has_inherited_threads: AtomicU32,
    /// Nonzero if the current call waits for other processes and must release the lock.
    ///
    /// The call is repeated after other threads have had the lock.
    pub must_repeat: AtomicU32,
    /// Work flags that receive [`MULTIPLE_THREADS`] if the program has several threads; may be
    /// null.
    pub work_flags: AtomicPtr<AtomicU8>,
    /// Slots of the procedures that may be called at any time.
    pub query_slots: [AtomicU32; QUERY_COUNT],
    /// Slot of MPI_Abort, which does not wait long for the lock.
    pub abort_slot: AtomicU32,
    /// Address of the function that executes a procedure of `query_slots`.
    ///
    /// The function receives the first two arguments of the call, and the slot.
    pub answer_query: AtomicUsize,
    /// Control block of the thread that runs a callback of the program, or zero.
    ///
    /// While the callback runs, other threads may make calls of [`MpiLock::local_slots`].
    pub yielding_thread: AtomicUsize,
    /// For each slot, true if its procedure waits for no other process.
    pub local_slots: AtomicPtr<bool>,
    /// Number of entries of `local_slots`.
    pub slot_count: AtomicU32,
    /// Address of the function that records an effect on files which cannot be undone.
    ///
    /// The function receives the first three arguments of [`crate::effect::Hook`].
    pub record_effect: AtomicUsize,
}

/// Addresses of code of the preload library, equal in all ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MpiLockCode {
    /// Code that repeats the call whose arguments are below the frame pointer.
    pub repeat_call: usize,
    /// Address in this code to which the runtime's entry returns.
    pub return_address: usize,
    /// Makes all calls take the lock from now on.
    pub enable: unsafe extern "C" fn(),
    /// Makes calls of the main thread take the lock from now on.
    ///
    /// Other threads cannot take the lock before [`MpiLock::is_shared`] is set. Any thread may call
    /// this function.
    pub enable_for_main: unsafe extern "C" fn(),
    /// Runs a callback on the program's stack, and yields the lock until the callback returns.
    pub run_callback: unsafe extern "C" fn(&YieldingCallback) -> u64,
    pub lock: *const MpiLock,
}

/// A callback of the program during which other threads may make calls.
///
/// The call that waits for the callback keeps its frames on the runtime's stack. Calls of other
/// threads use the part of the stack at lower addresses.
#[repr(C)]
pub struct YieldingCallback {
    /// Address of the callback.
    pub function: usize,
    /// Arguments of the callback, at most five.
    pub arguments: [u64; 5],
    /// Word with the address on the runtime's stack at which the next call's frame ends.
    ///
    /// The stack grows downwards, so all data of the next call are at lower addresses.
    pub next_frame: *const AtomicUsize,
}

impl MpiLock {
    pub const fn new() -> MpiLock {
        MpiLock {
            lock: AtomicU32::new(0),
            has_waiters: AtomicU32::new(0),
            is_shared: AtomicU32::new(0),
            owner: AtomicUsize::new(0),
            may_write_fs: AtomicU32::new(0),
            owner_thread: AtomicI32::new(0),
            thread_number_offset: AtomicUsize::new(0),
            has_handlers: AtomicU32::new(0),
            saved_mask: AtomicU64::new(MASK_UNCHANGED),
            owner_thread_word: AtomicPtr::new(core::ptr::null_mut()),
            has_inherited_threads: AtomicU32::new(0),
            must_repeat: AtomicU32::new(0),
            work_flags: AtomicPtr::new(core::ptr::null_mut()),
            query_slots: [const { AtomicU32::new(u32::MAX) }; QUERY_COUNT],
            abort_slot: AtomicU32::new(u32::MAX),
            answer_query: AtomicUsize::new(0),
            yielding_thread: AtomicUsize::new(0),
            local_slots: AtomicPtr::new(core::ptr::null_mut()),
            slot_count: AtomicU32::new(0),
            record_effect: AtomicUsize::new(0),
        }
    }
}

impl Default for MpiLock {
    fn default() -> Self {
        Self::new()
    }
}
