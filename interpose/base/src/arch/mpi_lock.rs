//! The MPI lock, which admits threads of the program to the runtime one by one.
//!
//! The lock is shared with the preload library, whose code acquires and releases it around a call
//! ([`understudy_abi::mpi_lock`]). The thread that has the lock exchanges its control block (fs
//! register) for that of the main thread, so that the runtime and the MPI library always run with
//! the main thread's thread-local data.
#![allow(unsafe_code)]

use super::frame::{Frame, Rewound, top_frame};
use super::raw_syscall;
use crate::generated::{LOCAL, Proc};
use crate::work_flags;
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use understudy_abi::control_block;
use understudy_abi::mpi_lock::{MASK_UNCHANGED, MpiLock, MpiLockCode, YieldingCallback};
use understudy_mpi::call;

/// Returns the control block of the main thread, with which the runtime always runs.
pub(super) fn main_block() -> usize {
    control_block::address()
}

/// Code of the preload library for the lock, and a lookup of the program's symbols.
struct PreloadLibrary {
    code: MpiLockCode,
    symbol: fn(&str) -> u64,
}

// SAFETY: the value is never changed; the code lives as long as the process, and the lock consists
// of atomics.
unsafe impl Send for PreloadLibrary {}
// SAFETY: the value is never changed; the lock consists of atomics, which any thread may access.
unsafe impl Sync for PreloadLibrary {}

static PRELOAD_LIBRARY: OnceLock<PreloadLibrary> = OnceLock::new();

/// Sets the preload library's code.
///
/// `symbol` returns the address of a symbol in the program's namespace, or 0.
pub fn connect(code: MpiLockCode, symbol: fn(&str) -> u64) {
    let _ = PRELOAD_LIBRARY.set(PreloadLibrary { code, symbol });
}

fn mpi_lock() -> &'static MpiLock {
    static UNCONNECTED: MpiLock = MpiLock::new();
    // SAFETY: the lock belongs to the preload library, which lives as long as the process.
    PRELOAD_LIBRARY
        .get()
        .map_or(&UNCONNECTED, |library| unsafe { &*library.code.lock })
}

/// Procedures that may be called at any time (MPI 4.1, 11.6.1).
const ALWAYS_ALLOWED: [Proc; understudy_abi::mpi_lock::QUERY_COUNT] = [
    Proc::MPI_Initialized,
    Proc::MPI_Finalized,
    Proc::MPI_Query_thread,
    Proc::MPI_Is_thread_main,
    Proc::MPI_Get_version,
    Proc::MPI_Get_library_version,
];

/// Function that answers one of [`ALWAYS_ALLOWED`]: two arguments of the call, and the slot.
type AnswerFunction = unsafe extern "C" fn(*mut c_int, *mut c_int, u32) -> c_int;
/// Function that records an effect on files: kind, directory, path.
type FileEffectFunction = unsafe extern "C" fn(u32, c_int, *const c_char);

/// Sets functions that run without the MPI lock, on the caller's stack.
pub fn set_unlocked_functions(answer: AnswerFunction, record_effect: FileEffectFunction) {
    mpi_lock()
        .answer_query
        .store(answer as usize, Ordering::Relaxed);
    mpi_lock()
        .record_effect
        .store(record_effect as usize, Ordering::Relaxed);
}

/// Allows concurrent MPI calls, after all workers have agreed.
///
/// To be called before a second thread calls MPI.
pub fn allow_concurrent_calls() {
    work_flags::set_multiple();
    let bits = std::ptr::from_ref(work_flags::bits()).cast_mut();
    mpi_lock().work_flags.store(bits, Ordering::Relaxed);
}

/// Records that threads exist whose creation the preload library has not seen.
pub fn record_other_threads() {
    mpi_lock().has_inherited_threads.store(1, Ordering::Relaxed);
    if work_flags::is_multiple() {
        work_flags::set(work_flags::MULTIPLE_THREADS);
    }
}

/// Sets the offset in bytes of the kernel's thread number in control blocks.
///
/// The offset is ignored if the control block of the calling main thread does not contain the
/// thread's number at this offset.
pub fn set_thread_number_offset(offset: usize) {
    // SAFETY: the caller passes the offset that glibc publishes for its own control block;
    // gettid(2) has no preconditions.
    let is_confirmed =
        unsafe { *((main_block() + offset) as *const libc::pid_t) == libc::gettid() };
    if is_confirmed {
        mpi_lock()
            .thread_number_offset
            .store(offset, Ordering::Relaxed);
    }
}

/// Records that the program has signal handlers.
pub fn record_signal_handlers() {
    mpi_lock().has_handlers.store(1, Ordering::SeqCst);
}

/// Sets the fields of the MPI lock that the preload library reads.
pub fn prepare() {
    let state = mpi_lock();
    for (slot, procedure) in state.query_slots.iter().zip(ALWAYS_ALLOWED) {
        slot.store(procedure.slot(), Ordering::Relaxed);
    }
    state
        .abort_slot
        .store(Proc::MPI_Abort.slot(), Ordering::Relaxed);
    state
        .slot_count
        .store(LOCAL.len() as u32, Ordering::Relaxed);
    state
        .local_slots
        .store(LOCAL.as_ptr().cast_mut(), Ordering::Relaxed);
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: getauxval(3) has no preconditions.
    let may_write_fs = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE;
    state
        .may_write_fs
        .store(may_write_fs as u32, Ordering::Relaxed);
    state.owner_thread_word.store(
        std::ptr::from_ref(call::caller()).cast_mut(),
        Ordering::Relaxed,
    );
}

/// Allows any thread of the program to call MPI from now on.
///
/// To be called from a handler that runs for the main thread.
pub fn share() {
    prepare();
    if let Some(library) = PRELOAD_LIBRARY.get() {
        // SAFETY: the main thread is in a call of the program.
        unsafe { (library.code.enable)() };
    }
}

/// Requests that calls use the MPI lock as soon as possible. Any thread may call this function.
///
/// From now on the main thread's calls take the lock. When the first of these calls has acquired
/// the lock, [`open_if_owned`] admits other threads. Has no effect before [`prepare`].
pub fn request_sharing() {
    let is_prepared = !mpi_lock()
        .owner_thread_word
        .load(Ordering::Relaxed)
        .is_null();
    if let Some(library) = PRELOAD_LIBRARY.get().filter(|_| is_prepared) {
        // SAFETY: `enable_for_main` may be called by any thread at any time.
        unsafe { (library.code.enable_for_main)() };
    }
}

/// Lets all threads use the MPI lock if the outermost call has acquired it.
///
/// Before the outermost call has acquired the lock, a call of the main thread could be in the
/// runtime without the lock, and would not exclude other threads.
pub fn open_if_owned() {
    if !is_shared() && outermost_owns_lock() {
        mpi_lock().is_shared.store(1, Ordering::SeqCst);
    }
}

/// True if any thread may call MPI.
pub fn is_shared() -> bool {
    mpi_lock().is_shared.load(Ordering::Relaxed) != 0
}

/// Returns the control block of the program's thread that is in the runtime.
pub fn current_block() -> usize {
    match mpi_lock().owner.load(Ordering::Relaxed) {
        0 => main_block(),
        owner => owner,
    }
}

/// True if the thread in the runtime is not the main thread.
#[inline]
pub fn is_other_thread() -> bool {
    let owner = mpi_lock().owner.load(Ordering::Relaxed);
    owner != 0 && owner != main_block()
}

/// Returns the signal mask that the program has set for the thread in the runtime.
///
/// `None` if the thread's current mask is the one that the program has set.
pub fn blocked_signals() -> Option<u64> {
    let mask = mpi_lock().saved_mask.load(Ordering::Relaxed);
    (is_other_thread() && mask != MASK_UNCHANGED).then_some(mask)
}

/// True if the call in `frame` has acquired the MPI lock.
///
/// The return of such a call releases the lock.
pub fn owns_lock(frame: &Frame) -> bool {
    // SAFETY: the program's stack pointer points to the return address of its call.
    let return_address = unsafe { (frame.rsp as *const usize).read() };
    is_lock_release(return_address as u64)
}

/// True in the outermost handler, if its call has acquired the MPI lock.
fn outermost_owns_lock() -> bool {
    // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
    top_frame().is_some_and(|frame| owns_lock(unsafe { &*frame }))
}

/// Returns the function that runs a callback and yields the lock while the callback runs.
///
/// `frame` is the frame of the innermost call. `None` if no other thread exists, or if that call
/// has not acquired the lock itself. For example, a call from a callback that has not yielded the
/// lock is made by a thread that has the lock already.
pub(super) fn yielding_caller(
    frame: &Frame,
) -> Option<unsafe extern "C" fn(&YieldingCallback) -> u64> {
    /// Distance from the frame pointer down to the word that marks nested calls ([`MpiLock`]).
    const NESTED: usize = 64;
    if !work_flags::is_set(work_flags::MULTIPLE_THREADS) {
        return None;
    }
    // SAFETY: `understudy_abi::mpi_lock::MpiLock` defines this word for calls that have acquired
    // the MPI lock.
    let has_acquired = owns_lock(frame)
        && unsafe { ((frame.preserved[RBP_INDEX] as usize - NESTED) as *const u64).read() == 0 };
    has_acquired
        .then(|| {
            PRELOAD_LIBRARY
                .get()
                .map(|library| library.code.run_callback)
        })
        .flatten()
}

/// True if the current call runs during another thread's callback, which has yielded the lock.
pub fn is_during_callback() -> bool {
    let yielding = mpi_lock().yielding_thread.load(Ordering::Relaxed);
    yielding != 0 && yielding != mpi_lock().owner.load(Ordering::Relaxed)
}

/// Makes the program repeat the current call after other threads have had the lock.
///
/// Returns true. The handler must return at once.
pub fn repeat_call() -> bool {
    mpi_lock().must_repeat.store(1, Ordering::Relaxed);
    true
}

/// Records that no callback is under way any more.
pub(super) fn end_callbacks() {
    mpi_lock().yielding_thread.store(0, Ordering::Relaxed);
}

/// Index of rbp in a frame's preserved registers.
const RBP_INDEX: usize = 4;

/// Returns the return address of the program's call.
pub fn call_site(frame: &Frame) -> u64 {
    let address = if owns_lock(frame) {
        frame.preserved[RBP_INDEX] + 8
    } else {
        frame.rsp
    };
    // SAFETY: the stack pointer points to the return address. A call that has acquired the lock
    // returns to the preload library's code instead of the program. That code's own return address,
    // in the program, is in the word above the saved frame pointer.
    unsafe { (address as *const u64).read() }
}

/// True if `address` is the preload library's code that releases the lock after a call.
pub fn is_lock_release(address: u64) -> bool {
    PRELOAD_LIBRARY
        .get()
        .is_some_and(|library| address == library.code.return_address as u64)
}

/// Returns the address at which the program repeats the call in `frame`.
pub fn address_of_call(frame: &Frame) -> Option<u64> {
    let library = PRELOAD_LIBRARY.get()?;
    if owns_lock(frame) {
        return Some(library.code.repeat_call as u64);
    }
    let procedure = Proc::ALL.get(frame.slot as usize)?;
    Some((library.symbol)(procedure.name())).filter(|&address| address != 0)
}

/// Prepares the main thread to resume with the call in `frame`.
///
/// The main thread acquires the lock if the return of that call releases the lock. Otherwise the
/// lock is free.
pub fn resume_main(frame: &Frame) {
    let state = mpi_lock();
    state.owner_thread.store(0, Ordering::Relaxed);
    call::caller().store(1, Ordering::Relaxed);
    if owns_lock(frame) {
        give_to_main(state);
    } else {
        release(state);
    }
}

fn give_to_main(state: &MpiLock) {
    state.owner.store(main_block(), Ordering::Relaxed);
    state.lock.store(1, Ordering::SeqCst);
    // Threads may be restored while they wait for the lock; the next release must wake them.
    state.has_waiters.store(1, Ordering::SeqCst);
}

/// Gives the lock to a main thread that is in the runtime without the lock.
///
/// This happens if the main thread has entered the runtime before the lock was in use.
pub fn acquire_for_main() {
    let state = mpi_lock();
    if is_shared() && state.owner.load(Ordering::Relaxed) == 0 {
        give_to_main(state);
    }
}

/// Yields the MPI lock, in a call that waits for other processes.
///
/// Does nothing if no thread waits for the lock.
///
/// On an error the handler must return at once; the call is repeated from its entry. The handler
/// must not have given the program any result of the call yet.
pub fn yield_lock() -> Result<(), Rewound> {
    let state = mpi_lock();
    // A call that is made from a callback cannot be repeated, because the callback would stay on
    // the program's stack.
    if state.has_waiters.load(Ordering::Relaxed) == 0 || !outermost_owns_lock() {
        return Ok(());
    }
    repeat_call();
    Err(Rewound)
}

/// Releases the lock, without the use of libc or thread-local data.
fn release(state: &MpiLock) {
    state.owner.store(0, Ordering::Relaxed);
    state.lock.store(0, Ordering::SeqCst);
    state.has_waiters.store(0, Ordering::SeqCst);
    raw_syscall::futex_wake(&state.has_waiters);
}

/// Releases the lock on behalf of the calling thread, which has left the runtime.
pub fn release_lock() {
    release(mpi_lock());
}

/// Calls `run` with the thread-local data of the program's thread that is in the runtime.
pub fn as_program<T>(run: impl FnOnce() -> T) -> T {
    if !is_other_thread() {
        return run();
    }
    let main = main_block();
    set_thread(current_block());
    let result = run();
    set_thread(main);
    result
}

/// Sets the control block, and thereby the thread-local data, of the calling thread.
#[inline(always)]
pub fn set_thread(block: usize) {
    const ARCH_SET_FS: usize = 0x1002;
    // SAFETY: callers pass the control block of a thread of this process that exists.
    unsafe { raw_syscall::syscall(libc::SYS_arch_prctl, [ARCH_SET_FS, block, 0, 0, 0, 0]) };
}
