//! MPI lock: all threads of the program may call MPI, one at a time.
//!
//! A thread waits here, on its own stack, before its call begins. It can thus be stopped and
//! restored like any thread that computes. The thread that has the lock uses the main thread's
//! thread-local data: the runtime side's are in memory that is rolled back. The state of the lock
//! is not.
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

const ARCH_SET_FS: usize = 0x1002;

const SET: usize = 2;

/// Words that the entry stores on the caller's stack.
#[repr(C)]
pub struct SavedCall {
    is_nested: u64,
    /// Slot; the upper half is the index in [`ENTER`].
    slot: u64,
    /// r9, r8, rcx, rdx, rsi, rdi.
    arguments: [u64; 6],
}

impl SavedCall {
    const NOTHING: SavedCall = SavedCall {
        is_nested: 0,
        slot: 0,
        arguments: [0; 6],
    };
}

/// Result of [`begin_call`]: the call is a query, which needs no lock.
const QUERY: u32 = 1;

/// Returns true if any thread may take the lock.
pub fn is_enabled() -> bool {
    LOCK_STATE.is_shared.load(Ordering::Relaxed) != 0
}

/// Returns the number of the calling process.
pub fn process() -> isize {
    // SAFETY: getpid(2).
    unsafe { sys!(nr::GETPID) }
}

fn set_thread(block: usize) {
    // SAFETY: this code uses no thread-local data. The instruction is used only if the kernel
    // permits it, otherwise arch_prctl(2).
    unsafe {
        if LOCK_STATE.may_write_fs.load(Ordering::Relaxed) != 0 {
            core::arch::asm!("wrfsbase {}", in(reg) block, options(nostack, preserves_flags));
        } else {
            sys!(nr::ARCH_PRCTL, ARCH_SET_FS, block);
        }
    }
}

fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: rt_sigprocmask(2) with sets in this frame.
    unsafe {
        sys!(
            nr::RT_SIGPROCMASK,
            SET,
            &raw const mask,
            &raw mut before,
            8,
            0,
            0
        )
    };
    before
}

/// Returns the kernel's number of the calling thread.
fn number(own: usize) -> i32 {
    match LOCK_STATE.thread_number_offset.load(Ordering::Relaxed) {
        // SAFETY: gettid(2).
        0 => unsafe { sys!(nr::GETTID) as i32 },
        // SAFETY: glibc's control block contains the number at this offset.
        at => unsafe { *((own + at) as *const i32) },
    }
}

/// Blocks handled signals in a thread with the lock that is not the main one.
fn block_signals() {
    LOCK_STATE
        .saved_mask
        .store(set_mask(!UNBLOCKED_SIGNALS), Ordering::Relaxed);
}

/// Restores the signal mask of such a thread at the end of its call.
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
/// The handler needs the thread-local data of its own thread, so this function waits until the
/// current call releases the lock. The wait is limited: the call may wait for another rank.
pub fn expect_handler(signal: c_int) {
    let is_let_through = UNBLOCKED_SIGNALS >> (signal - 1) & 1 != 0;
    if is_let_through || LOCK_STATE.has_handlers.swap(1, Ordering::SeqCst) != 0 || !is_enabled() {
        return;
    }
    let own = control_block::address();
    if process() != PROCESS.load(Ordering::Relaxed) {
    } else if LOCK_STATE.owner.load(Ordering::Relaxed) != own {
        if acquire(&LOCK_STATE, EFFECT_ROUNDS) {
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
        tid = number(own);
    }
    LOCK_STATE.owner_thread.store(tid, Ordering::Relaxed);
    // SAFETY: null, or the runtime's word.
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

/// Returns true if the calling thread, in a callback of the program, has the lock.
fn enter_if_owner(kept: &mut SavedCall, own: usize) -> bool {
    let is_nested = LOCK_STATE.owner.load(Ordering::Relaxed) == own;
    kept.is_nested = is_nested.into();
    if is_nested && own != threads::main() {
        set_thread(threads::main());
    }
    is_nested
}

pub extern "C" fn begin_call(kept: &mut SavedCall) -> u32 {
    let own = control_block::address();
    if !is_enabled() && own != threads::main() {
        return QUERY;
    }
    if try_lock(&LOCK_STATE) {
        if may_begin(kept, own) {
            begin(own);
            return 0;
        }
        release(&LOCK_STATE);
    }
    begin_delayed_call(kept, own)
}

/// Returns true if the thread that has the lock may begin this call.
///
/// While another thread is in a callback, only calls that wait for no other process may begin,
/// because that thread's call cannot continue before this one returns.
#[inline(always)]
fn may_begin(kept: &SavedCall, own: usize) -> bool {
    let lender = LOCK_STATE.yielding_thread.load(Ordering::Relaxed);
    lender == 0 || lender == own || is_local(kept.slot as u32)
}

#[cold]
#[inline(never)]
fn is_local(slot: u32) -> bool {
    let locals = LOCK_STATE.local_slots.load(Ordering::Relaxed);
    // SAFETY: null, or one entry for each slot of the call table; later slots are never local.
    !locals.is_null()
        && slot < LOCK_STATE.slot_count.load(Ordering::Relaxed)
        && unsafe { *locals.add(slot as usize) }
}

/// Acquires the lock when `is_so` returns true.
fn acquire_when(is_so: impl Fn() -> bool) {
    acquire(&LOCK_STATE, 0);
    while !is_so() {
        release(&LOCK_STATE);
        sleep_briefly();
        acquire(&LOCK_STATE, 0);
    }
}

/// Begins a call for which the lock was in use, or which could not begin.
#[cold]
#[inline(never)]
fn begin_delayed_call(kept: &mut SavedCall, own: usize) -> u32 {
    let slot = kept.slot as u32;
    let is_question = |question: &AtomicU32| question.load(Ordering::Relaxed) == slot;
    if LOCK_STATE.query_slots.iter().any(is_question) {
        return QUERY;
    }
    if enter_if_owner(kept, own) {
        return 0;
    }
    if slot != LOCK_STATE.abort_slot.load(Ordering::Relaxed) {
        acquire_when(|| may_begin(kept, own));
    } else if !acquire(&LOCK_STATE, ABORT_ROUNDS) {
        print(&message::ABORT_DURING_CALL);
        const CODE: usize = 4;
        immediate_exit::_exit(kept.arguments[CODE] as c_int);
    }
    begin(own);
    0
}

/// Runs `run` with the lock, which is not released, at exit(3).
///
/// Returns false if the lock was not released for half a second.
pub fn run_at_exit(run: impl FnOnce()) -> bool {
    if !is_enabled() {
        run();
        return true;
    }
    let (own, mut kept) = (control_block::address(), SavedCall::NOTHING);
    if !enter_if_owner(&mut kept, own) {
        if !acquire(&LOCK_STATE, EFFECT_ROUNDS) {
            return false;
        }
        begin(own);
    }
    run();
    if own != threads::main() {
        set_thread(own);
        if kept.is_nested == 0 {
            unblock_signals();
        }
    }
    true
}

pub extern "C" fn end_call(kept: &mut SavedCall) {
    let own = LOCK_STATE.owner.load(Ordering::Relaxed);
    if own != threads::main() && own != 0 {
        set_thread(own);
    }
    if kept.is_nested != 0 || own == 0 {
        return;
    }
    // The mask must be restored before another thread can make a cut. It may block stops of this
    // thread, because an effect that was recorded has not happened yet.
    if own != threads::main() {
        unblock_signals();
    }
    LOCK_STATE.owner.store(0, Ordering::Relaxed);
    release(&LOCK_STATE);
}

/// Releases the lock; the call, which waits for other processes, is then repeated.
pub extern "C" fn yield_and_repeat(kept: &mut SavedCall) {
    /// Interval of repetitions that sleep; the others only yield the processor.
    const SLEEP_INTERVAL: u32 = 8;
    const LAST: u32 = SLEEP_INTERVAL - 1;
    static TIMES: AtomicU32 = AtomicU32::new(0);
    LOCK_STATE.must_repeat.store(0, Ordering::Relaxed);
    end_call(kept);
    // SAFETY: sched_yield(2); nanosleep(2) with a constant duration.
    unsafe {
        match TIMES.fetch_add(1, Ordering::Relaxed) % SLEEP_INTERVAL {
            LAST => sleep_briefly(),
            _ => drop(sys!(nr::SCHED_YIELD)),
        }
    };
}

/// Sleeps for 50 µs.
fn sleep_briefly() {
    const MOMENT: [i64; 2] = [0, 50_000];
    // SAFETY: nanosleep(2) with a constant duration.
    unsafe { sys!(nr::NANOSLEEP, MOMENT.as_ptr(), 0) };
}

/// Runs a callback of the program and yields the lock meanwhile.
///
/// A callback may wait for a resource, such as an interpreter's lock, of a thread that waits for
/// the MPI lock. Other threads may therefore make calls that wait for no other process. Their
/// callbacks must return before this function does.
///
/// # Safety
/// The runtime must call this function in a call that has the lock. `callback.function` must accept
/// up to five arguments.
pub unsafe extern "C" fn run_callback(callback: &YieldingCallback) -> u64 {
    let own = LOCK_STATE.owner.load(Ordering::Relaxed);
    let before = LOCK_STATE.yielding_thread.swap(own, Ordering::Relaxed);
    // SAFETY: the word is the runtime's.
    let depth = || unsafe { (*callback.next_frame).load(Ordering::Relaxed) };
    let (here, mut kept) = (depth(), SavedCall::NOTHING);
    end_call(&mut kept);
    let [a, b, c, d, e] = callback.arguments;
    // SAFETY: guaranteed by the caller.
    let result = unsafe {
        type Callback = unsafe extern "C" fn(u64, u64, u64, u64, u64) -> u64;
        core::mem::transmute::<usize, Callback>(callback.function)(a, b, c, d, e)
    };
    acquire_when(|| depth() == here);
    LOCK_STATE.yielding_thread.store(before, Ordering::Relaxed);
    begin(own);
    result
}

/// Number of waits of 10 ms after which MPI_Abort ends the process without the lock.
const ABORT_ROUNDS: u32 = 100;
/// Number of waits of 10 ms after which an effect is recorded without the lock.
///
/// The call that has the lock may wait for another rank.
const EFFECT_ROUNDS: u32 = 50;

/// Arguments of an effect: kind, directory and path, second directory and path, value.
pub type Effect = (u32, c_int, *const c_char, c_int, *const c_char, i64);

/// Records an effect with the lock, or as one that cannot be undone.
///
/// The latter happens if the lock is not released for half a second. The calling thread cannot be
/// stopped until the effect has happened.
///
/// # Safety
/// As for the runtime's function.
pub unsafe fn record_effect(
    hook: Hook,
    (kind, directory, path, other_directory, other, value): Effect,
) {
    let own = control_block::address();
    let mut kept = SavedCall::NOTHING;
    if process() != PROCESS.load(Ordering::Relaxed) {
        return stop::block();
    }
    // SAFETY: the runtime's functions have these types.
    unsafe {
        if enter_if_owner(&mut kept, own) {
            stop::block();
        } else if acquire(&LOCK_STATE, EFFECT_ROUNDS) {
            stop::block();
            begin(own);
        } else {
            type Note = unsafe extern "C" fn(u32, c_int, *const c_char);
            stop::block();
            let note: Note = core::mem::transmute(LOCK_STATE.record_effect.load(Ordering::Relaxed));
            return note(kind, directory, path);
        }
        hook(kind, directory, path, other_directory, other, value);
    }
    end_call(&mut kept);
}

/// Answers a query that is permitted while another thread has the lock.
///
/// The thread cannot be stopped in the runtime's code, which must not be part of an image.
pub extern "C" fn answer_query(first: *mut c_int, second: *mut c_int, slot: u64) -> c_int {
    type Answer = unsafe extern "C" fn(*mut c_int, *mut c_int, u32) -> c_int;
    stop::block();
    // SAFETY: the runtime's function has this type and gets the program's arguments.
    let result = unsafe {
        let answer: Answer = core::mem::transmute(LOCK_STATE.answer_query.load(Ordering::Relaxed));
        answer(first, second, slot as u32)
    };
    stop::unblock();
    result
}
