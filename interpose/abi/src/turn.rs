//! Whose turn it is to be in the runtime, in a program any of whose threads may call MPI.

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

/// As many procedures may be called at any time.
pub const QUESTIONS: usize = 6;

/// What is not blocked while it is a thread's turn: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV; 32,
/// which takes it out of the library; and 33, by which threads of the library are ended, that
/// inherit this.
pub const LET_THROUGH: u64 = 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 31 | 1 << 32;

/// No mask is: SIGKILL cannot be blocked.
pub const UNCHANGED: u64 = 1 << 8;

/// The bit that tells of more than one thread.
pub const SEVERAL: u8 = 16;

/// What face and runtime share of it. It lies on the runtime side: it does not roll back.
///
/// Whose turn it is runs on the runtime's stack, with the main thread's thread-local data. If it is
/// another thread, signals for which the program has handlers are kept out: nearly all are blocked,
/// or none has a handler. A call begins as follows, with 64 bytes below the saved frame pointer for
/// its arguments:
///
/// ```text
///   rbp → caller's rbp    rbp - 8 … rbp - 48: rdi rsi rdx rcx r8 r9    rbp - 56: the slot    rbp - 64: whether it is nested
/// ```
#[repr(C)]
pub struct Turn {
    /// 0: it is nobody's turn.
    pub lock: AtomicU32,
    /// A futex, not 0: others may wait for their turn.
    pub waited_for: AtomicU32,
    /// Not 0: calls take turns, and any thread gets one.
    pub is_shared: AtomicU32,
    /// Control block (fs register) of the thread whose turn it is; 0: nobody's.
    pub holder: AtomicUsize,
    /// Not 0: the kernel lets programs write the fs register themselves (HWCAP2_FSGSBASE;
    /// Documentation/arch/x86/x86_64/fsgs.rst).
    pub may_write_fs: AtomicU32,
    /// The kernel's number of that thread; 0: the main one.
    pub number: AtomicI32,
    /// Where a control block has that number, in bytes; 0: unknown.
    pub number_at: AtomicUsize,
    /// Not 0: the program has handlers of signals that are not let through.
    pub has_handlers: AtomicU32,
    /// The signals that it has blocked if nearly all are blocked now; [`UNCHANGED`]: none is that
    /// it has not blocked.
    pub mask: AtomicU64,
    /// Where the runtime wants to have that number, 1 for the main thread.
    pub told: AtomicPtr<AtomicU32>,
    /// Not 0: there are threads that were created in another process, whose part this one plays.
    pub has_others: AtomicU32,
    /// Not 0: the call waits for others and gives its turn back; it is to be made once more, when
    /// others have had theirs.
    pub again: AtomicU32,
    /// Where the runtime wants to be told by [`SEVERAL`] that the program has more than one thread;
    /// null: nowhere.
    pub attention: AtomicPtr<AtomicU8>,
    /// The slots of what may be called at any time.
    pub questions: [AtomicU32; QUESTIONS],
    /// The slot of what ends the job (MPI_Abort), for which no turn is waited for long.
    pub abort: AtomicU32,
    /// What answers them: two arguments and the slot.
    pub answer: AtomicUsize,
    /// Control block of the thread that is in a callback of the program, in whose time others may
    /// make calls of [`Turn::locals`]; 0: none is.
    pub lender: AtomicUsize,
    /// For each slot, whether that is a call that waits for nobody.
    pub locals: AtomicPtr<bool>,
    /// How many slots those are.
    pub slots: AtomicU32,
    /// What notes an effect on files that will not be undone: the first three arguments of
    /// [`crate::effect::Hook`].
    pub note: AtomicUsize,
}

/// Addresses of code of the face, the same in all ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TurnCode {
    /// Makes the call once more whose arguments the frame pointer leads to.
    pub again: usize,
    /// Where such a call returns to.
    pub returned: usize,
    /// From now on calls take turns.
    pub share: unsafe extern "C" fn(),
    /// From now on calls of the main thread take turns; others get none before that is said by
    /// [`Turn::is_shared`]. For any thread.
    pub begin: unsafe extern "C" fn(),
    /// Runs a callback of the program without a turn, on the program's stack.
    pub lend: unsafe extern "C" fn(&Lent) -> u64,
    pub turn: *const Turn,
}

/// A callback of the program in whose time others may call. What waits for it on the runtime's
/// stack stays there: they run above that.
#[repr(C)]
pub struct Lent {
    /// Its address.
    pub function: usize,
    /// At most five arguments.
    pub arguments: [u64; 5],
    /// Where the frame of the next call begins on the runtime's stack.
    pub top: *const AtomicUsize,
}

impl Turn {
    pub const fn new() -> Turn {
        Turn {
            lock: AtomicU32::new(0),
            waited_for: AtomicU32::new(0),
            is_shared: AtomicU32::new(0),
            holder: AtomicUsize::new(0),
            may_write_fs: AtomicU32::new(0),
            number: AtomicI32::new(0),
            number_at: AtomicUsize::new(0),
            has_handlers: AtomicU32::new(0),
            mask: AtomicU64::new(UNCHANGED),
            told: AtomicPtr::new(core::ptr::null_mut()),
            has_others: AtomicU32::new(0),
            again: AtomicU32::new(0),
            attention: AtomicPtr::new(core::ptr::null_mut()),
            questions: [const { AtomicU32::new(u32::MAX) }; QUESTIONS],
            abort: AtomicU32::new(u32::MAX),
            answer: AtomicUsize::new(0),
            lender: AtomicUsize::new(0),
            locals: AtomicPtr::new(core::ptr::null_mut()),
            slots: AtomicU32::new(0),
            note: AtomicUsize::new(0),
        }
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}
