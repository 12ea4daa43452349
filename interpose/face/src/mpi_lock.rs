//! MPI lock: all threads of the program may call MPI, one at a time.
//!
//! A thread waits for the lock on its own stack, before its call enters the runtime. A cut can
//! therefore stop and save the thread like any thread that computes. While a thread has the lock,
//! its fs register points to the main thread's control block, so that the runtime and the MPI
//! library find the thread-local data with which they were initialised. The program's signal
//! handlers need the thread's own data, so they must not run during this time. The state of the
//! lock itself ([`MpiLock`]) is not rolled back.
#![allow(unsafe_code)]

use crate::futex_lock::{acquire, release, try_lock};
use crate::messages::print;
use crate::sys::{nr, sys};
use crate::{immediate_exit, libc_procedures, stop, threads};
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering};
use understudy_abi::control_block;
use understudy_abi::effect::Hook;
use understudy_abi::mpi_lock::{MASK_UNCHANGED, MpiLock, UNBLOCKED_SIGNALS, YieldingCallback};
use understudy_catalogue::message;

/// State of the lock.
pub static LOCK_STATE: MpiLock = MpiLock::new();
/// Process in which the lock is used; child processes inherit its state.
pub static PROCESS: AtomicIsize = AtomicIsize::new(0);

/// Code of arch_prctl(2) that sets the fs register.
const ARCH_SET_FS: usize = 0x1002;

const SIG_SETMASK: usize = 2;

/// Call whose slot and arguments the entry has stored on the caller's stack.
#[repr(C)]
pub struct SavedCall {
    /// Nonzero if the thread already had the lock: the call is made in a callback.
    is_nested: u64,
    /// Slot; the upper half is the index in [`ENTER`].
    slot: u64,
    /// r9, r8, rcx, rdx, rsi, rdi.
    arguments: [u64; 6],
}

impl SavedCall {
    /// Value for functions that take the lock without a call of MPI.
    const NONE: SavedCall = SavedCall {
        is_nested: 0,
        slot: 0,
        arguments: [0; 6],
    };
}

/// Result of [`begin_call`]: the thread has the lock, and the call may enter the runtime.
const LOCKED: u32 = 0;
/// Result of [`begin_call`]: [`answer_query`] handles the call without the lock.
const QUERY: u32 = 1;

/// Returns true if any thread may take the lock.
pub fn is_enabled() -> bool {
    LOCK_STATE.is_shared.load(Ordering::Relaxed) != 0
}

/// Returns the number of the calling process.
pub fn process() -> isize {
    // SAFETY: getpid(2) has no preconditions.
    unsafe { sys!(nr::GETPID) }
}

/// Makes the calling thread use the thread-local data of the thread with this control block.
fn set_thread(block: usize) {
    // SAFETY: the callers pass control blocks of threads of this process, and this library uses no
    // thread-local data. The instruction is used only if the kernel permits it, otherwise
    // arch_prctl(2).
    unsafe {
        if LOCK_STATE.may_write_fs.load(Ordering::Relaxed) != 0 {
            core::arch::asm!("wrfsbase {}", in(reg) block, options(nostack, preserves_flags));
        } else {
            sys!(nr::ARCH_PRCTL, ARCH_SET_FS, block);
        }
    }
}

/// Sets the signal mask of the calling thread, and returns the previous one.
fn set_mask(mask: u64) -> u64 {
    let mut previous = 0u64;
    // SAFETY: rt_sigprocmask(2) with sets in this frame.
    unsafe {
        sys!(
            nr::RT_SIGPROCMASK,
            SIG_SETMASK,
            &raw const mask,
            &raw mut previous,
            8,
            0,
            0
        )
    };
    previous
}

/// Returns the number (gettid(2)) of the calling thread, whose control block is `own`.
fn thread_number(own: usize) -> i32 {
    match LOCK_STATE.thread_number_offset.load(Ordering::Relaxed) {
        // SAFETY: gettid(2) has no preconditions.
        0 => unsafe { sys!(nr::GETTID) as i32 },
        // SAFETY: glibc's control block contains the number at this offset.
        offset => unsafe { *((own + offset) as *const i32) },
    }
}

/// Blocks signals in the calling thread, which is not the main thread.
///
/// The thread has the lock. The signals stay blocked as long as the thread uses the main thread's
/// thread-local data.
fn block_signals() {
    LOCK_STATE
        .saved_mask
        .store(set_mask(!UNBLOCKED_SIGNALS), Ordering::Relaxed);
}

/// Restores the signal mask that [`block_signals`] has changed.
fn unblock_signals() {
    let mask = LOCK_STATE.saved_mask.load(Ordering::Relaxed);
    if mask != MASK_UNCHANGED {
        LOCK_STATE
            .saved_mask
            .store(MASK_UNCHANGED, Ordering::Relaxed);
        set_mask(mask);
    }
}

/// Prepares for a signal handler that the program is about to install.
///
/// Calls of threads other than the main thread block signals from the program's first handler on. A
/// call of another thread that has begun without blocking signals must end before the handler is
/// installed, so this function waits for the lock. The wait is limited, because that call may wait
/// for another rank.
pub fn expect_handler(signal: c_int) {
    let is_never_blocked = UNBLOCKED_SIGNALS >> (signal - 1) & 1 != 0;
    if is_never_blocked || LOCK_STATE.has_handlers.swap(1, Ordering::SeqCst) != 0 || !is_enabled() {
        return;
    }
    let own = control_block::address();
    if process() != PROCESS.load(Ordering::Relaxed) {
        return;
    }
    if LOCK_STATE.owner.load(Ordering::Relaxed) != own {
        if acquire(&LOCK_STATE, LIMITED_WAIT_ROUNDS) {
            release(&LOCK_STATE);
        }
    } else if own != threads::main() {
        block_signals();
    }
}

/// Begins a call of the thread with the control block `own`, which has the lock.
fn begin(own: usize) {
    let mut tid = 0;
    if own != threads::main() {
        libc_procedures::stop_recording();
        if LOCK_STATE.has_handlers.load(Ordering::Relaxed) != 0 {
            block_signals();
        }
        tid = thread_number(own);
    }
    LOCK_STATE.owner_thread.store(tid, Ordering::Relaxed);
    // SAFETY: null, or the runtime's word, which lives as long as the process.
    if let Some(owner_thread) = unsafe {
        LOCK_STATE
            .owner_thread_word
            .load(Ordering::Relaxed)
            .as_ref()
    } {
        owner_thread.store((tid as u32).max(1), Ordering::Relaxed);
    }
    LOCK_STATE.owner.store(own, Ordering::Relaxed);
    if own != threads::main() {
        set_thread(threads::main());
    }
}

/// Begins a nested call, if the calling thread has the lock.
///
/// Such a thread is in a callback of the program.
///
/// Returns false if the thread does not have the lock.
fn enter_if_owner(call: &mut SavedCall, own: usize) -> bool {
    let is_nested = LOCK_STATE.owner.load(Ordering::Relaxed) == own;
    call.is_nested = is_nested.into();
    if is_nested && own != threads::main() {
        set_thread(threads::main());
    }
    is_nested
}

/// Takes the lock for a call; called by the entry.
pub extern "C" fn begin_call(call: &mut SavedCall) -> u32 {
    let own = control_block::address();
    if !is_enabled() && own != threads::main() {
        return QUERY;
    }
    if try_lock(&LOCK_STATE) {
        if may_begin(call, own) {
            begin(own);
            return LOCKED;
        }
        release(&LOCK_STATE);
    }
    begin_delayed_call(call, own)
}

/// Returns true if the thread that has the lock may begin this call.
///
/// While another thread is in a callback, only calls that wait for no other process may begin,
/// because that thread's call cannot continue before this call returns.
#[inline(always)]
fn may_begin(call: &SavedCall, own: usize) -> bool {
    let yielding_thread = LOCK_STATE.yielding_thread.load(Ordering::Relaxed);
    yielding_thread == 0 || yielding_thread == own || is_local(call.slot as u32)
}

/// Returns true if the procedure of a slot waits for no other process.
#[cold]
#[inline(never)]
fn is_local(slot: u32) -> bool {
    let locals = LOCK_STATE.local_slots.load(Ordering::Relaxed);
    // SAFETY: null, or one entry for each slot of the call table; later slots are never local.
    !locals.is_null()
        && slot < LOCK_STATE.slot_count.load(Ordering::Relaxed)
        && unsafe { *locals.add(slot as usize) }
}

/// Acquires the lock as soon as `may_proceed` returns true, which is called with the lock.
fn acquire_when(may_proceed: impl Fn() -> bool) {
    acquire(&LOCK_STATE, 0);
    while !may_proceed() {
        release(&LOCK_STATE);
        sleep_briefly();
        acquire(&LOCK_STATE, 0);
    }
}

/// Begins a call for which the lock was in use, or which could not begin.
#[cold]
#[inline(never)]
fn begin_delayed_call(call: &mut SavedCall, own: usize) -> u32 {
    let slot = call.slot as u32;
    let is_slot = |query: &AtomicU32| query.load(Ordering::Relaxed) == slot;
    if LOCK_STATE.query_slots.iter().any(is_slot) {
        return QUERY;
    }
    if enter_if_owner(call, own) {
        return LOCKED;
    }
    if slot != LOCK_STATE.abort_slot.load(Ordering::Relaxed) {
        acquire_when(|| may_begin(call, own));
    } else if !acquire(&LOCK_STATE, ABORT_ROUNDS) {
        print(&message::ABORT_DURING_CALL);
        /// Index of rsi, the second argument of MPI_Abort.
        const ERROR_CODE: usize = 4;
        immediate_exit::_exit(call.arguments[ERROR_CODE] as c_int);
    }
    begin(own);
    LOCKED
}

/// Calls `run` at exit(3) with the lock, which is not released afterwards.
///
/// Returns false if another thread did not release the lock for half a second. In a program whose
/// calls do not take the lock, `run` is called at once in the main thread. This function returns
/// false in any other thread of such a program, because the main thread may be in a call of MPI.
pub fn run_at_exit(run: impl FnOnce()) -> bool {
    let (own, mut call) = (control_block::address(), SavedCall::NONE);
    if !is_enabled() {
        let is_main = own == threads::main();
        if is_main {
            run();
        }
        return is_main;
    }
    if !enter_if_owner(&mut call, own) {
        if !acquire(&LOCK_STATE, LIMITED_WAIT_ROUNDS) {
            return false;
        }
        begin(own);
    }
    run();
    if own != threads::main() {
        set_thread(own);
        if call.is_nested == 0 {
            unblock_signals();
        }
    }
    true
}

/// Releases the lock at the end of a call, unless the call was nested.
pub extern "C" fn end_call(call: &mut SavedCall) {
    let own = LOCK_STATE.owner.load(Ordering::Relaxed);
    if own != threads::main() && own != 0 {
        set_thread(own);
    }
    if call.is_nested != 0 || own == 0 {
        return;
    }
    // The mask must be restored before the lock is released, because another thread may then take a
    // cut. The restored mask blocks stops of this thread if it has recorded an effect that has not
    // happened yet.
    if own != threads::main() {
        unblock_signals();
    }
    LOCK_STATE.owner.store(0, Ordering::Relaxed);
    release(&LOCK_STATE);
}

/// Releases the lock; the call, which waits for other processes, is then repeated.
pub extern "C" fn yield_and_repeat(call: &mut SavedCall) {
    /// Number of repetitions of which one sleeps; all other repetitions yield the processor.
    const SLEEP_INTERVAL: u32 = 8;
    const LAST: u32 = SLEEP_INTERVAL - 1;
    static REPETITIONS: AtomicU32 = AtomicU32::new(0);
    LOCK_STATE.must_repeat.store(0, Ordering::Relaxed);
    end_call(call);
    // SAFETY: sched_yield(2) has no preconditions.
    unsafe {
        match REPETITIONS.fetch_add(1, Ordering::Relaxed) % SLEEP_INTERVAL {
            LAST => sleep_briefly(),
            _ => drop(sys!(nr::SCHED_YIELD)),
        }
    };
}

/// Sleeps for 50 µs.
fn sleep_briefly() {
    const DURATION: [i64; 2] = [0, 50_000];
    // SAFETY: nanosleep(2) with a constant duration.
    unsafe { sys!(nr::NANOSLEEP, DURATION.as_ptr(), 0) };
}

/// Runs a callback of the program, and yields the lock until the callback returns.
///
/// The callback may wait for a resource, such as an interpreter's lock, while the thread that has
/// the resource waits for the MPI lock. While the callback runs, other threads may therefore make
/// calls that wait for no other process. On the runtime's stack, the frames of these calls follow
/// this call's frames, at lower addresses. If such a call also runs a callback, that callback must
/// return before this function returns.
///
/// # Safety
/// The runtime must call this function in a call that has the lock. `callback.function` must accept
/// up to five arguments, and `callback.next_frame` must be valid.
pub unsafe extern "C" fn run_callback(callback: &YieldingCallback) -> u64 {
    let own = LOCK_STATE.owner.load(Ordering::Relaxed);
    let previous = LOCK_STATE.yielding_thread.swap(own, Ordering::Relaxed);
    // SAFETY: the caller guarantees that `callback.next_frame` is valid.
    let next_frame = || unsafe { (*callback.next_frame).load(Ordering::Relaxed) };
    let (own_next_frame, mut call) = (next_frame(), SavedCall::NONE);
    end_call(&mut call);
    let [a, b, c, d, e] = callback.arguments;
    // SAFETY: the caller guarantees that `callback.function` accepts up to five arguments.
    let result = unsafe {
        type Callback = unsafe extern "C" fn(u64, u64, u64, u64, u64) -> u64;
        core::mem::transmute::<usize, Callback>(callback.function)(a, b, c, d, e)
    };
    acquire_when(|| next_frame() == own_next_frame);
    LOCK_STATE
        .yielding_thread
        .store(previous, Ordering::Relaxed);
    begin(own);
    result
}

/// Number of waits of 10 ms after which MPI_Abort ends the process without the lock.
const ABORT_ROUNDS: u32 = 100;
/// Number of waits of 10 ms after which some actions proceed without the lock.
///
/// The actions are setting a signal handler, an exit, and the record of an effect. Waits for the
/// lock are limited because the call that has the lock may wait for another rank.
const LIMITED_WAIT_ROUNDS: u32 = 50;

/// Arguments of an effect: kind, directory and path, second directory and path, value.
pub type Effect = (u32, c_int, *const c_char, c_int, *const c_char, i64);

/// Records an effect with the lock, so that the effect can be undone.
///
/// The effect is recorded without the lock, as one that cannot be undone, if the lock is not
/// released for half a second. Stops of the calling thread are blocked until the caller unblocks
/// them after the effect.
///
/// # Safety
/// The requirements of the runtime's function ([`Hook`]) apply.
pub unsafe fn record_effect(
    hook: Hook,
    (kind, directory, path, other_directory, other, value): Effect,
) {
    let own = control_block::address();
    let mut call = SavedCall::NONE;
    if process() != PROCESS.load(Ordering::Relaxed) {
        return stop::block();
    }
    // SAFETY: the runtime has stored functions of these types, whose requirements the caller meets.
    unsafe {
        if enter_if_owner(&mut call, own) {
            stop::block();
        } else if acquire(&LOCK_STATE, LIMITED_WAIT_ROUNDS) {
            stop::block();
            begin(own);
        } else {
            type RecordIrrevocable = unsafe extern "C" fn(u32, c_int, *const c_char);
            stop::block();
            let record: RecordIrrevocable =
                core::mem::transmute(LOCK_STATE.record_effect.load(Ordering::Relaxed));
            return record(kind, directory, path);
        }
        hook(kind, directory, path, other_directory, other, value);
    }
    end_call(&mut call);
}

/// Calls the runtime's function for calls without the lock, which answers or refuses them.
///
/// The function answers queries, which are permitted at any time (MPI 4.1, 11.6.1), and refuses
/// other calls of threads that may not take the lock. Stops of the thread are blocked meanwhile,
/// because a thread that is stopped in the runtime's code could not be restored in another process.
pub extern "C" fn answer_query(first: *mut c_int, second: *mut c_int, slot: u64) -> c_int {
    type Answer = unsafe extern "C" fn(*mut c_int, *mut c_int, u32) -> c_int;
    stop::block();
    // SAFETY: the runtime has stored a function of this type. The function receives the arguments
    // of the call, for whose validity MPI makes the program responsible.
    let result = unsafe {
        let answer: Answer = core::mem::transmute(LOCK_STATE.answer_query.load(Ordering::Relaxed));
        answer(first, second, slot as u32)
    };
    stop::unblock();
    result
}
