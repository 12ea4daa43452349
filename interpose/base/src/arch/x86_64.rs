//! x86-64: the two stacks, and the transitions between them.
//!
//! The entry is in `entry` of the runtime.
//!
//! ```text
//!  program's stack                  runtime's stack (in the reserved range)
//!  ┌──────────────────┐             ┌───────────────────┐ ← TOP
//!  │ caller's frame   │             │ rsp               │ Frame: the program's state, sufficient
//!  │ stack arguments  │ ─ copied ─┐ │ rbx rbp r12…r15   │ to resume it elsewhere or repeatedly
//!  │ return address   │ ← rsp     │ │ r9 r8 rcx rdx rsi │
//!  └──────────────────┘           │ │ rdi, slot         │ ← rbp while a handler runs
//!   unused below                  └►│ stack arguments   │
//!                                   │ handler's frames  │
//! ```
//!
//! After the return of a handler, the program usually resumes after its call, with the registers in
//! the frame. A recovery *rewinds* the frame instead: the frame of the last cut replaces the frame
//! of the call. Then the program resumes by making the call that the new frame describes.
//!
//! While the runtime calls a callback of the program, TOP is lowered below the handler's frames, so
//! that an MPI call of the callback does not overwrite these frames.
#![allow(unsafe_code)]

use super::frame::{BASE, Frame, OFFSET_OF_RBP, OFFSET_OF_RSP, TOP, innermost_frame, top_frame};
use crate::generated::SLOT_COUNT;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use understudy_abi::mpi_lock::YieldingCallback;
use understudy_abi::{libc_procedures, on_other_stack, wait_state};

/// Stack pointer inside of [`run_user`].
static RUN_USER_STACK: AtomicUsize = AtomicUsize::new(0);
/// Actions after a handler has returned: the flags [`EXECUTE`] and [`RECORD`].
pub static AFTER_HANDLER: AtomicU8 = AtomicU8::new(0);
/// Flag: the frame was rewound, and its call must be made.
pub const EXECUTE: u8 = 1;
/// Address of the function that the thread calls instead of making the rewound frame's call.
///
/// The function does not return. Zero if unset.
pub static DEPART: AtomicUsize = AtomicUsize::new(0);
/// Flag: the call must be recorded in the set-up log.
pub const RECORD: u8 = 2;
/// State of the program's current call, or of its last call.
///
/// An entry writes all bytes at once.
#[repr(C, align(4))]
#[derive(Debug)]
pub struct CallState {
    /// Kind of the current wait ([`wait_state`]), which the shim reads.
    pub wait_kind: AtomicU8,
    /// Mark that the guardian sets, and that every call removes.
    pub mark: AtomicU8,
    /// 1 from an entry until the return to the program, else 0.
    pub is_in_call: AtomicU8,
}

impl CallState {
    /// Bytes at the beginning of a call.
    pub const BEGUN: u32 = u32::from_le_bytes([wait_state::UNKNOWN_WAIT, 0, CallState::IN_CALL, 0]);
    /// Value of `is_in_call` during a call.
    const IN_CALL: u8 = 1;
    /// Offset of `is_in_call`.
    pub const OFFSET_OF_IN_CALL: usize = std::mem::offset_of!(CallState, is_in_call);
}

const _: () = assert!(std::mem::offset_of!(CallState, wait_kind) == 0);
const _: () = assert!(CallState::OFFSET_OF_IN_CALL == 2 && size_of::<CallState>() == 4);

pub static CALL_STATE: CallState = CallState {
    wait_kind: AtomicU8::new(wait_state::UNKNOWN_WAIT),
    mark: AtomicU8::new(0),
    is_in_call: AtomicU8::new(0),
};

unsafe extern "C" {
    #[link_name = "abort"]
    safe fn libc_abort() -> !;
}

/// Handler of each slot, for the entry code.
pub static DISPATCH: [AtomicPtr<c_void>; SLOTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS];
/// Number of slots: those of the call table, then additional ones ([`libc_procedures`]).
const SLOTS: usize = SLOT_COUNT + libc_procedures::EXTRA_SLOT_COUNT;
/// Slot of the call with which the program's main thread enters a recovery.
///
/// The runtime's module `entry` sets the handlers of this slot and of the next three slots.
pub const RECOVER: usize = SLOT_COUNT + libc_procedures::RECOVER_SLOT;
/// Slot of the call with which the program ends (exit(3)).
pub const LEAVE: usize = SLOT_COUNT + libc_procedures::EXIT_SLOT;
/// Slot of the call with which MPICH's Fortran bindings register proxies for a key's functions.
pub const KEYVAL_PROXY: usize = SLOT_COUNT + libc_procedures::KEYVAL_PROXY_SLOT;
/// Slot of the call with which MPICH's bindings mark a generalized request as Fortran's.
pub const GREQUEST_FORTRAN: usize = SLOT_COUNT + libc_procedures::GREQUEST_FORTRAN_SLOT;

/// Sets the handler of a slot.
pub fn set_handler(slot: usize, handler: *mut c_void) {
    DISPATCH[slot].store(handler, Ordering::Relaxed);
}

/// Calls a function of the program, which may call MPI, and keeps the MPI lock.
///
/// # Safety
/// To be called from a handler; `function` must take (up to) these five arguments.
pub unsafe fn call_user(function: *const c_void, a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
    // SAFETY: the caller guarantees that a handler runs, and that `function` takes up to five
    // arguments.
    super::mpi_lock::as_program(|| unsafe { call_on_stack(function, a, b, c, d, e) })
}

/// Calls a callback of the program, and yields the MPI lock while the callback runs.
///
/// Other threads may make calls that wait for no other process. The function is only for callbacks
/// that the runtime itself calls: while the MPI library runs a callback, no other thread may enter
/// the library.
///
/// # Safety
/// The requirements of [`call_user`] apply; no state of the runtime may be borrowed.
pub unsafe fn call_program(function: *const c_void, arguments: [u64; 5]) -> u64 {
    let [a, b, c, d, e] = arguments;
    let Some(yielding_caller) = super::mpi_lock::yielding_caller(innermost_frame()) else {
        // SAFETY: the requirements of `call_user` are also those of this function.
        return unsafe { call_user(function, a, b, c, d, e) };
    };
    let callback = YieldingCallback {
        function: function as usize,
        arguments,
        next_frame: &raw const TOP,
    };
    // SAFETY: the requirements of `call_user` are also those of this function; `callback` stays in
    // place until the callback has returned or is abandoned.
    unsafe {
        call_on_stack(
            yielding_caller as *const c_void,
            &raw const callback as u64,
            0,
            0,
            0,
            0,
        )
    }
}

/// Acts like [`call_user`], but does not change the thread-local data.
///
/// Saves TOP, lowers TOP below this function's own frame, and switches to the program's stack. The
/// new stack pointer is 256 bytes below the one that the innermost call had, which is the last word
/// of that call's frame. That frame ends at TOP.
///
/// # Safety
/// The requirements of [`call_user`] apply.
#[unsafe(naked)]
unsafe extern "C" fn call_on_stack(
    function: *const c_void,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
) -> u64 {
    naked_asm!(
        ".cfi_startproc",
        on_other_stack!(
            "push qword ptr [rip + {top}]",
            "mov r11, qword ptr [rip + {top}]",
            "mov rax, rdi",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "mov rdx, rcx",
            "mov rcx, r8",
            "mov r8, r9",
            "mov r11, qword ptr [r11 - 8]",
            "lea r10, [rsp - 64]",
            "and r10, -16",
            "mov qword ptr [rip + {top}], r10",
            "lea rsp, [r11 - 256]",
            "and rsp, -16",
            "call rax",
            "lea rsp, [rbp - 8]",
            "pop qword ptr [rip + {top}]",
        ),
        "ret",
        ".cfi_endproc",
        top = sym TOP,
    )
}

/// Runs `run`; meanwhile callbacks use the stack of `frame` instead of the outermost entry's.
///
/// Recoveries use this function if they call the program before they rewind the frame of the
/// outermost entry.
pub fn on_stack_of<T>(frame: &Frame, run: impl FnOnce() -> T) -> T {
    let top = top_frame().unwrap_or_else(|| libc_abort());
    // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
    let before = unsafe { top.replace(*frame) };
    let result = run();
    // SAFETY: the handler still runs, so its frame is still at the top of the runtime's stack.
    unsafe { top.write(before) };
    result
}

/// Runs `run`; meanwhile MPI calls and exits of the program lead to `refuse`.
pub fn without_mpi<T>(refuse: extern "C" fn() -> !, run: impl FnOnce() -> T) -> T {
    let slots = || DISPATCH[..SLOT_COUNT].iter().chain([&DISPATCH[LEAVE]]);
    let handlers: Vec<_> = slots()
        .map(|entry| entry.swap(refuse as *mut c_void, Ordering::Relaxed))
        .collect();
    let result = run();
    for (entry, handler) in slots().zip(handlers) {
        entry.store(handler, Ordering::Relaxed);
    }
    result
}

/// Abandons the program's current callbacks and the calls that have led to them.
///
/// The current handler becomes the outermost handler.
pub fn abandon_callbacks() {
    super::mpi_lock::end_callbacks();
    TOP.store(BASE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Replaces the frame of the outermost entry.
///
/// The call that `frame` describes is made when the handler of the outermost entry returns. After
/// [`abandon_callbacks`], the current handler is the handler of the outermost entry.
pub fn rewind(frame: &Frame) {
    let top = top_frame().unwrap_or_else(|| libc_abort());
    // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
    unsafe { top.write(*frame) };
    AFTER_HANDLER.fetch_or(EXECUTE, Ordering::Relaxed);
}

/// Makes the calling thread call `depart` instead of making the rewound frame's call.
pub fn depart_by(depart: extern "C" fn() -> !) {
    DEPART.store(depart as usize, Ordering::Relaxed);
}

/// Cancels [`depart_by`]: the calling thread makes the rewound frame's call.
pub fn cancel_departure() {
    DEPART.store(0, Ordering::Relaxed);
}

/// True if the calling thread will call the function of [`depart_by`].
pub fn is_departing() -> bool {
    DEPART.load(Ordering::Relaxed) != 0
}

/// True if the frame was rewound: the current handler must return, with any value.
#[inline]
pub fn is_rewound() -> bool {
    AFTER_HANDLER.load(Ordering::Relaxed) & EXECUTE != 0
}

/// Returns the byte in which the shim reads the kind of the current wait.
pub fn wait_kind() -> &'static AtomicU8 {
    &CALL_STATE.wait_kind
}

/// Marks a wait that blocks until messages have been transferred.
#[inline(always)]
pub fn mark_blocking_wait() {
    CALL_STATE
        .wait_kind
        .store(wait_state::BLOCKING, Ordering::Relaxed);
}

/// Marks a wait that usually ends soon.
///
/// An example is MPI_Test, which the program may call repeatedly while the program waits.
#[inline(always)]
pub fn mark_short_wait() {
    CALL_STATE
        .wait_kind
        .store(wait_state::POLLING, Ordering::Relaxed);
}

/// Marks the end of a wait.
pub fn end_wait() {
    CALL_STATE
        .wait_kind
        .store(wait_state::UNKNOWN_WAIT, Ordering::Relaxed);
}

/// Selects whether `journal::record_call` of the runtime is called after each handler.
pub fn set_recording(on: bool) {
    if on {
        AFTER_HANDLER.fetch_or(RECORD, Ordering::Relaxed);
    } else {
        AFTER_HANDLER.fetch_and(!RECORD, Ordering::Relaxed);
    }
}

/// True if calls are recorded.
#[inline]
pub fn is_recording() -> bool {
    AFTER_HANDLER.load(Ordering::Relaxed) & RECORD != 0
}

/// Resumes the program on its stack, as if the call in `frame` had returned `result`.
///
/// Returns the argument of [`leave_user`] when a handler calls that function. Until then, MPI
/// calls of the program use the runtime's stack below this function's frame.
///
/// # Safety
/// The program's memory must be in the state of that call.
#[unsafe(naked)]
pub unsafe extern "C" fn run_user(frame: *const Frame, result: u64) -> u64 {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push qword ptr [rip + {top}]",
        "push qword ptr [rip + {base}]",
        "mov qword ptr [rip + {left}], rsp",
        "lea r10, [rsp - 64]",
        "and r10, -16",
        "mov qword ptr [rip + {top}], r10",
        "mov qword ptr [rip + {base}], r10",
        "mov rax, rsi",
        "mov r15, qword ptr [rdi + 56]",
        "mov r14, qword ptr [rdi + 64]",
        "mov r13, qword ptr [rdi + 72]",
        "mov r12, qword ptr [rdi + 80]",
        "mov rbp, qword ptr [rdi + {off_rbp}]",
        "mov rbx, qword ptr [rdi + 96]",
        "mov rsp, qword ptr [rdi + {off_rsp}]",
        "ret",
        ".cfi_endproc",
        top = sym TOP,
        base = sym BASE,
        left = sym RUN_USER_STACK,
        off_rsp = const OFFSET_OF_RSP,
        off_rbp = const OFFSET_OF_RBP,
    )
}

/// Makes [`run_user`] return `value`. The program is not resumed at its current position.
///
/// # Safety
/// To be called from a handler inside of [`run_user`]. Local values of functions between
/// [`run_user`] and the handler are not dropped.
#[unsafe(naked)]
pub unsafe extern "C" fn leave_user(value: u64) -> ! {
    naked_asm!(
        ".cfi_startproc",
        "mov rsp, qword ptr [rip + {left}]",
        "mov rax, rdi",
        "pop qword ptr [rip + {base}]",
        "pop qword ptr [rip + {top}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        ".cfi_endproc",
        top = sym TOP,
        base = sym BASE,
        left = sym RUN_USER_STACK,
    )
}

/// Original handlers of the slots that are diverted at present; null for other slots.
pub static DIVERTED: [AtomicPtr<c_void>; SLOT_COUNT] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOT_COUNT];
static DIVERSION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Sets the function to which calls of diverted slots are diverted.
///
/// The function must finally call the slot's original handler, which is in [`DIVERTED`].
pub fn divert_to(function: unsafe extern "C" fn()) {
    DIVERSION.store(function as *mut c_void, Ordering::Relaxed);
}

/// Diverts the calls of these slots to the function of [`divert_to`].
pub fn divert(slots: &[u32]) {
    let function = DIVERSION.load(Ordering::Relaxed);
    for &slot in slots {
        let entry = &DISPATCH[slot as usize];
        let before = entry.load(Ordering::Relaxed);
        if before != function && !function.is_null() {
            DIVERTED[slot as usize].store(before, Ordering::Relaxed);
            entry.store(function, Ordering::Relaxed);
        }
    }
}

/// Ends the diversion of these slots.
pub fn undivert(slots: &[u32]) {
    for &slot in slots {
        let before = DIVERTED[slot as usize].swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !before.is_null() {
            DISPATCH[slot as usize].store(before, Ordering::Relaxed);
        }
    }
}

/// Return value of a call that is answered from the set-up log.
///
/// Both rax and xmm0 receive the bits of the value. The value therefore reaches callers of
/// procedures that return an integer, and of those that return a double.
#[repr(C)]
pub struct AnsweredResult {
    integer: u64,
    double: f64,
}

impl AnsweredResult {
    pub fn from_bits(bits: u64) -> AnsweredResult {
        AnsweredResult {
            integer: bits,
            double: f64::from_bits(bits),
        }
    }
}

/// Makes `answer` the handler of all slots except those for which `is_executed` is true.
pub fn answer_all(is_executed: impl Fn(usize) -> bool, answer: extern "C" fn() -> AnsweredResult) {
    for (slot, entry) in DISPATCH.iter().enumerate() {
        if !is_executed(slot) {
            entry.store(answer as *mut c_void, Ordering::Relaxed);
        }
    }
}
