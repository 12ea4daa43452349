//! x86-64: the two stacks, and the ways between them but for the entry (`entry` of the runtime).
//!
//! ```text
//!  application's stack                     runtime's stack (in the zone)
//!  ┌──────────────────┐                    ┌───────────────────┐ ← TOP
//!  │ caller's frame   │                    │ rsp               │ Frame: where the program was, complete enough to
//!  │ stack arguments  │ ─── copied ───┐    │ rbx rbp r12…r15   │ continue it elsewhere or once more
//!  │ return address   │ ← rsp         │    │ r9 r8 rcx rdx rsi │
//!  └──────────────────┘               │    │ rdi, slot         │ ← rbp while a handler runs
//!   nothing of ours below             └──→ │ stack arguments   │
//!                                          │ handler's frames  │
//! ```
//!
//! After the handler the frame is thrown away, unless recovery has *rewound* it: then it holds the
//! program's state at the last cut, and the call that it describes is made again. While the runtime
//! calls back into the program, TOP is lowered, so that a nested entry does not overwrite the
//! frames below it.
#![allow(unsafe_code)]

use super::frame::{BASE, Frame, OFFSET_OF_RBP, OFFSET_OF_RSP, TOP, innermost_frame, top_frame};
use crate::generated::SLOT_COUNT;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use understudy_abi::turn::Lent;
use understudy_abi::{on_other_stack, source, wait};

/// The stack pointer inside of [`run_user`].
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// What is to be done when a handler has returned: bits of [`EXECUTE`] and [`RECORD`].
pub static AFTER: AtomicU8 = AtomicU8::new(0);
/// The frame was overwritten by recovery and is to be executed.
pub const EXECUTE: u8 = 1;
/// What makes the calling thread leave the runtime instead of executing the rewound frame: a
/// function that does not return; 0: none.
pub static DEPART: AtomicUsize = AtomicUsize::new(0);
/// The call is to be recorded.
pub const RECORD: u8 = 2;
/// What the call waits for ([`wait`]), of which the shim is told.
pub static WAIT: AtomicU8 = AtomicU8::new(wait::BEGUN);

unsafe extern "C" {
    /// Not used: keeps the type of the table in sight of the assembly below.
    #[link_name = "abort"]
    safe fn libc_abort() -> !;
}

/// The handler of each slot, as the entry code finds it.
pub static DISPATCH: [AtomicPtr<c_void>; SLOTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS];
/// Those of the call table, and behind them what else enters while a phase is recorded.
const SLOTS: usize = SLOT_COUNT + source::SLOTS;
/// The slots of calls that the program does not make itself (`entry` of the runtime).
pub const RECOVER: usize = SLOT_COUNT + source::RECOVER;
pub const LEAVE: usize = SLOT_COUNT + source::LEAVE;
pub const KEYVAL_PROXY: usize = SLOT_COUNT + source::KEYVAL_PROXY;
pub const GREQUEST_FORTRAN: usize = SLOT_COUNT + source::GREQUEST_FORTRAN;

/// From now on a slot leads there.
pub fn set_handler(slot: usize, handler: *mut c_void) {
    DISPATCH[slot].store(handler, Ordering::Relaxed);
}

/// Calls a function of the program on the program's stack; nested calls of MPI are possible.
///
/// # Safety
/// To be called from a handler; `function` must take (up to) these five arguments.
pub unsafe fn call_user(function: *const c_void, a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
    // SAFETY: handed on to the caller.
    super::turn::as_program(|| unsafe { call_on_stack(function, a, b, c, d, e) })
}

/// The same for a callback that the layer itself calls, not the library: in its time other threads
/// may make calls that wait for nobody.
///
/// # Safety
/// As [`call_user`]; nothing of the runtime's state may be borrowed.
pub unsafe fn call_program(function: *const c_void, arguments: [u64; 5]) -> u64 {
    let [a, b, c, d, e] = arguments;
    let Some(lend) = super::turn::lend(innermost_frame()) else {
        // SAFETY: handed on to the caller.
        return unsafe { call_user(function, a, b, c, d, e) };
    };
    let lent = Lent {
        function: function as usize,
        arguments,
        top: &raw const TOP,
    };
    // SAFETY: as above; what is lent stays in place until the callback has returned, or is left.
    unsafe { call_on_stack(lend as *const c_void, &raw const lent as u64, 0, 0, 0, 0) }
}

/// [`call_user`] with the thread-local data that are there.
///
/// # Safety
/// As [`call_user`].
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
            // The innermost frame's rsp is its last word.
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

/// Has callbacks run on the stack of the program that the frame describes, which is not the
/// outermost entry's yet, for the length of `run`.
pub fn on_stack_of<T>(frame: &Frame, run: impl FnOnce() -> T) -> T {
    let top = top_frame().unwrap_or_else(|| libc_abort());
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    let before = unsafe { top.replace(*frame) };
    let result = run();
    // SAFETY: as above.
    unsafe { top.write(before) };
    result
}

/// Has MPI calls, and the program's end, lead to `refuse` for the length of `run`.
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

/// The program's callbacks that are under way are not returned to, nor are the calls that have led
/// to them: this handler is the outermost one.
pub fn leave_callbacks() {
    super::turn::end_lending();
    TOP.store(BASE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Replaces the frame of the outermost entry: when its handler, or one that has left callbacks,
/// returns, the call in `frame` is made instead.
pub fn rewind(frame: &Frame) {
    let top = top_frame().unwrap_or_else(|| libc_abort());
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    unsafe { top.write(*frame) };
    AFTER.fetch_or(EXECUTE, Ordering::Relaxed);
}

/// When the rewound frame is due, the calling thread does not execute it, but this.
pub fn depart_by(depart: extern "C" fn() -> !) {
    DEPART.store(depart as usize, Ordering::Relaxed);
}

/// The calling thread executes the rewound frame after all.
pub fn stay() {
    DEPART.store(0, Ordering::Relaxed);
}

/// Whether the calling thread will leave the runtime so.
pub fn departs() -> bool {
    DEPART.load(Ordering::Relaxed) != 0
}

/// Whether the handler that runs now should return as soon as it can, with any value.
pub fn is_rewound() -> bool {
    AFTER.load(Ordering::Relaxed) & EXECUTE != 0
}

/// Where the shim finds what the call waits for.
pub fn wait_mark() -> &'static AtomicU8 {
    &WAIT
}

/// The call is about to block until messages have come or gone.
#[inline(always)]
pub fn will_block() {
    WAIT.store(wait::BLOCKS, Ordering::Relaxed);
}

/// The call waits for something that has come or gone soon, and may be one of many that wait for
/// something else.
#[inline(always)]
pub fn will_return() {
    WAIT.store(wait::RETURNS, Ordering::Relaxed);
}

/// What this process waits for next is another wait.
pub fn end_wait() {
    WAIT.store(wait::BEGUN, Ordering::Relaxed);
}

/// Whether `journal::record_call` of the runtime is called when a handler has returned.
pub fn set_recording(on: bool) {
    if on {
        AFTER.fetch_or(RECORD, Ordering::Relaxed);
    } else {
        AFTER.fetch_and(!RECORD, Ordering::Relaxed);
    }
}

/// Whether calls are recorded.
#[inline]
pub fn is_recording() -> bool {
    AFTER.load(Ordering::Relaxed) & RECORD != 0
}

/// Lets the program go on, on its own stack, as if the call in `frame` had returned `result`.
/// Returns what [`leave_user`] is given. What the program calls meanwhile runs below this on the
/// runtime's stack.
///
/// # Safety
/// The program's memory must be as it was at that call.
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
        left = sym LEFT,
        off_rsp = const OFFSET_OF_RSP,
        off_rbp = const OFFSET_OF_RBP,
    )
}

/// Ends [`run_user`], which returns `value`; the program stays where it is.
///
/// # Safety
/// To be called from a handler inside of [`run_user`]; nothing between the two is dropped.
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
        left = sym LEFT,
    )
}

/// The handlers of slots that lead to [`divert`]'s function for now.
pub static DIVERTED: [AtomicPtr<c_void>; SLOT_COUNT] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOT_COUNT];
static DIVERSION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// What diverted slots lead to: it goes on to their handlers in [`DIVERTED`].
pub fn divert_to(function: unsafe extern "C" fn()) {
    DIVERSION.store(function as *mut c_void, Ordering::Relaxed);
}

/// From now on these slots' calls are diverted.
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

/// No call is diverted any more.
pub fn undivert(slots: &[u32]) {
    for &slot in slots {
        let before = DIVERTED[slot as usize].swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !before.is_null() {
            DISPATCH[slot as usize].store(before, Ordering::Relaxed);
        }
    }
}

/// What a call returns that is answered: the same bits in the register for integers and in that for
/// doubles.
#[repr(C)]
pub struct Answer {
    integer: u64,
    double: f64,
}

impl Answer {
    pub fn of(bits: u64) -> Answer {
        Answer {
            integer: bits,
            double: f64::from_bits(bits),
        }
    }
}

/// Has all slots answered by this function, whatever they return, but those that `executed`
/// selects.
pub fn answer_all(executed: impl Fn(usize) -> bool, answer: extern "C" fn() -> Answer) {
    for (slot, entry) in DISPATCH.iter().enumerate() {
        if !executed(slot) {
            entry.store(answer as *mut c_void, Ordering::Relaxed);
        }
    }
}
