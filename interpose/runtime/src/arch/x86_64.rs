//! x86-64: the way from a thunk to a handler and back, on two stacks.
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
//! After the handler the frame is thrown away, unless recovery has *rewound* it: then it holds the program's state at
//! the last cut, and the call that it describes is made again. While the runtime calls back into the program, TOP is
//! lowered, so that a nested entry does not overwrite the frames below it.
#![allow(unsafe_code)]

use crate::generated::{HANDLERS, SLOT_COUNT, STACK_WORDS};
use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use understudy_abi::{RUNTIME_STACK, RUNTIME_STACK_SIZE, ZONE_SHIFT, ZONE_TAG, source};

/// The program's state at a call: what the callee must preserve, and the call itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Frame {
    /// The called slot.
    pub slot: u64,
    /// rdi, rsi, rdx, rcx, r8, r9: the register arguments.
    pub arguments: [u64; 6],
    /// r15, r14, r13, r12, rbp, rbx.
    pub preserved: [u64; 6],
    /// The application's stack pointer; it points to the return address, and the stack arguments follow.
    pub rsp: u64,
}

const FRAME_SIZE: usize = size_of::<Frame>();
const RUNTIME_TOP: usize = RUNTIME_STACK + RUNTIME_STACK_SIZE;
const OFFSET_OF_RBP: usize = 88;
const OFFSET_OF_RSP: usize = 104;

const _: () = assert!(FRAME_SIZE == 112 && FRAME_SIZE.is_multiple_of(16));
const _: () = assert!(std::mem::offset_of!(Frame, preserved) + 4 * 8 == OFFSET_OF_RBP);
const _: () = assert!(std::mem::offset_of!(Frame, rsp) == OFFSET_OF_RSP);

/// Where the next entry's frame ends.
static TOP: AtomicUsize = AtomicUsize::new(RUNTIME_TOP);
/// Where the frame of an outermost entry ends: lower while the program runs inside of [`run_user`].
static BASE: AtomicUsize = AtomicUsize::new(RUNTIME_TOP);
/// The stack pointer inside of [`run_user`].
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// The thread (its control block, fs:0x10) that may enter.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// What is to be done when a handler has returned: bits of [`EXECUTE`], [`RECORD`] and [`WAITED`].
static AFTER: AtomicU8 = AtomicU8::new(0);
/// The frame was overwritten by recovery and is to be executed.
const EXECUTE: u8 = 1;
/// The call is to be recorded.
const RECORD: u8 = 2;
/// The call has waited: set by the shim, for which it tells one call from the next at no cost to those that do not wait.
const WAITED: u8 = 4;

unsafe extern "C" {
    /// Not used: keeps the type of the table in sight of the assembly below.
    #[link_name = "abort"]
    safe fn libc_abort() -> !;
}

/// The handler of each slot, as the entry code finds it.
static DISPATCH: [AtomicPtr<c_void>; SLOTS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS];
/// Those of the call table, and behind them what else enters while a phase is recorded.
const SLOTS: usize = SLOT_COUNT + source::COUNT;

/// Fills the dispatch table; `forward` gives the address for slots that are functions of the real library or of libc as they
/// are.
pub fn fill_dispatch(forward: impl Fn(usize) -> *mut c_void) {
    for (slot, handler) in HANDLERS.iter().enumerate() {
        let address = if handler.is_forward() {
            forward(slot)
        } else {
            handler.address().cast_mut().cast()
        };
        DISPATCH[slot].store(address, Ordering::Relaxed);
    }
    for (slot, entry) in DISPATCH.iter().enumerate().skip(SLOT_COUNT) {
        entry.store(forward(slot), Ordering::Relaxed);
    }
}

/// Where the thunks of the face jump: slot in `eax`, everything else as at the call. What differs is how many words of
/// stack arguments are copied. Eight bytes at a time, as a program stores them: a wider load would wait for the stores.
///
/// The CFI lets a debugger walk from a handler to the application: the canonical frame address is eight bytes above the
/// stack pointer that the frame holds (DWARF 5, 6.4.2: `DW_CFA_def_cfa_expression`, `DW_CFA_expression`).
macro_rules! entries {
    ($($name:ident: $doc:literal $(, $copy:literal)*;)*) => {$(
        #[doc = $doc]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov r10, qword ptr fs:[0x10]",
                "mov r11, rsp",
                "cmp r10, qword ptr [rip + {owner}]",
                "jne 8f",
                "mov rsp, qword ptr [rip + {top}]",
                ".cfi_def_cfa r11, 8",
                "push r11",
                "push rbx",
                "push rbp",
                "push r12",
                "push r13",
                "push r14",
                "push r15",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "push rax",
                "mov rbp, rsp",
                // CFA = *(rbp + 104) + 8; the caller's rbp is at rbp + 88.
                ".cfi_escape 0x0f, 0x06, 0x76, 0xe8, 0x00, 0x06, 0x23, 0x08",
                ".cfi_escape 0x10, 0x06, 0x03, 0x76, 0xd8, 0x00",
                $($copy,)*
                "lea r10, [rip + {handlers}]",
                "call qword ptr [r10 + rax * 8]",
                "cmp byte ptr [rip + {after}], 0",
                "jne {resume}",
                "mov rsp, qword ptr [rbp + {off_rsp}]",
                ".cfi_def_cfa rsp, 8",
                "mov rbp, qword ptr [rbp + {off_rbp}]",
                ".cfi_same_value rbp",
                "ret",
                // Another thread: refused on its own stack.
                "8:",
                "mov edi, eax",
                "jmp {foreign}",
                ".cfi_endproc",
                owner = sym OWNER,
                top = sym TOP,
                handlers = sym DISPATCH,
                after = sym AFTER,
                resume = sym resume,
                foreign = sym crate::errors::wrong_thread,
                off_rbp = const OFFSET_OF_RBP,
                off_rsp = const OFFSET_OF_RSP,
            )
        }
    )*};
}

entries! {
    enter_few: "For procedures with up to six arguments.";
    enter_some: "For procedures with up to eight.", "push qword ptr [r11 + 16]", "push qword ptr [r11 + 8]";
    enter_many: "For all others.",
        "push qword ptr [r11 + 64]", "push qword ptr [r11 + 56]", "push qword ptr [r11 + 48]",
        "push qword ptr [r11 + 40]", "push qword ptr [r11 + 32]", "push qword ptr [r11 + 24]",
        "push qword ptr [r11 + 16]", "push qword ptr [r11 + 8]";
}

/// The entries, in the order of `STACK_WORDS`. Only the face's thunks may jump there.
pub const ENTRIES: [unsafe extern "C" fn(); understudy_abi::ENTRIES] = [enter_few, enter_some, enter_many];

const _: () = assert!(STACK_WORDS[0] == 0 && STACK_WORDS[1] == 2 && STACK_WORDS[2] == 8);

/// Something is to be done when a handler has returned. If the frame at rbp holds another moment, the preserved registers
/// and the call are taken from it.
#[unsafe(naked)]
unsafe extern "C" fn resume() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_escape 0x0f, 0x06, 0x76, 0xe8, 0x00, 0x06, 0x23, 0x08",
        ".cfi_escape 0x10, 0x06, 0x03, 0x76, 0xd8, 0x00",
        "and byte ptr [rip + {after}], {not_waited}",
        "test byte ptr [rip + {after}], {record}",
        "je 2f",
        "push rax",
        "sub rsp, 8",
        "movsd qword ptr [rsp], xmm0",
        "mov rdi, rbp",
        "mov rsi, rax",
        "movq rdx, xmm0",
        "call {record_call}",
        "movsd xmm0, qword ptr [rsp]",
        "add rsp, 8",
        "pop rax",
        "2:",
        "test byte ptr [rip + {after}], {execute}",
        "jne 3f",
        "mov rsp, qword ptr [rbp + {off_rsp}]",
        "mov rbp, qword ptr [rbp + {off_rbp}]",
        "ret",
        "3:",
        "and byte ptr [rip + {after}], {others}",
        "mov rsp, rbp",
        "mov rax, qword ptr [rbp]",
        "mov rdi, qword ptr [rbp + 8]",
        "mov rsi, qword ptr [rbp + 16]",
        "mov rdx, qword ptr [rbp + 24]",
        "mov rcx, qword ptr [rbp + 32]",
        "mov r8, qword ptr [rbp + 40]",
        "mov r9, qword ptr [rbp + 48]",
        "mov r15, qword ptr [rbp + 56]",
        "mov r14, qword ptr [rbp + 64]",
        "mov r13, qword ptr [rbp + 72]",
        "mov r12, qword ptr [rbp + 80]",
        "mov rbx, qword ptr [rbp + 96]",
        "mov r11, qword ptr [rbp + {off_rsp}]",
        "push qword ptr [r11 + 64]",
        "push qword ptr [r11 + 56]",
        "push qword ptr [r11 + 48]",
        "push qword ptr [r11 + 40]",
        "push qword ptr [r11 + 32]",
        "push qword ptr [r11 + 24]",
        "push qword ptr [r11 + 16]",
        "push qword ptr [r11 + 8]",
        "lea r10, [rip + {handlers}]",
        "call qword ptr [r10 + rax * 8]",
        "cmp byte ptr [rip + {after}], 0",
        "jne {resume}",
        "mov rsp, qword ptr [rbp + {off_rsp}]",
        ".cfi_def_cfa rsp, 8",
        "mov rbp, qword ptr [rbp + {off_rbp}]",
        ".cfi_same_value rbp",
        "ret",
        ".cfi_endproc",
        handlers = sym DISPATCH,
        after = sym AFTER,
        resume = sym resume,
        record_call = sym crate::journal::record_call,
        record = const RECORD,
        not_waited = const !WAITED,
        execute = const EXECUTE,
        others = const !EXECUTE,
        off_rsp = const OFFSET_OF_RSP,
        off_rbp = const OFFSET_OF_RBP,
    )
}

/// Calls a function of the program on the program's stack; nested calls of MPI are possible.
///
/// # Safety
/// To be called from a handler; `function` must take (up to) these five arguments.
#[unsafe(naked)]
pub unsafe extern "C" fn call_user(function: *const c_void, a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
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
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        top = sym TOP,
    )
}

/// What the face calls before an effect on files, with up to six register arguments: passed on to the runtime's stack,
/// below what is in use there. Does nothing in another thread, or if the runtime itself is at work.
///
/// # Safety
/// The arguments must be those of [`understudy_abi::effect::Hook`].
#[unsafe(naked)]
pub unsafe extern "C" fn file_effect() {
    naked_asm!(
        ".cfi_startproc",
        "mov r10, qword ptr fs:[0x10]",
        "cmp r10, qword ptr [rip + {owner}]",
        "jne 9f",
        "mov r10, rsp",
        "shr r10, {zone_shift}",
        "cmp r10, {zone_tag}",
        "je 9f",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, qword ptr [rip + {top}]",
        "call {note}",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        ".cfi_same_value rbp",
        "9: ret",
        ".cfi_endproc",
        owner = sym OWNER,
        top = sym TOP,
        note = sym crate::user::file_effect,
        zone_shift = const ZONE_SHIFT,
        zone_tag = const ZONE_TAG,
    )
}

/// [`enter_many`], which serves every procedure, with the call counted; at one that is due [`crate::fault::call_is_due`] is called first.
///
/// # Safety
/// As [`ENTRIES`].
#[unsafe(naked)]
pub unsafe extern "C" fn enter_counted() {
    naked_asm!(
        ".cfi_startproc",
        "mov r10, qword ptr [rip + {calls}]",
        "inc r10",
        "mov qword ptr [rip + {calls}], r10",
        "cmp r10, qword ptr [rip + {due}]",
        "jne {enter}",
        // Seven registers and the return address: the stack is aligned for a call.
        "push rax",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        ".cfi_adjust_cfa_offset 56",
        "call {call_is_due}",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rax",
        ".cfi_adjust_cfa_offset -56",
        "jmp {enter}",
        ".cfi_endproc",
        calls = sym crate::fault::CALLS,
        due = sym crate::fault::DUE,
        call_is_due = sym crate::fault::call_is_due,
        enter = sym enter_many,
    )
}

/// Lets the calling thread, and no other, enter.
pub fn set_owner() {
    let owner: usize;
    // SAFETY: glibc's thread control block points to itself at fs:0x10.
    unsafe { std::arch::asm!("mov {}, fs:[0x10]", out(reg) owner, options(nostack, readonly, preserves_flags)) };
    OWNER.store(owner, Ordering::Relaxed);
}

/// The frame of the outermost entry, or `None` inside a callback.
pub fn top_frame() -> Option<*mut Frame> {
    let base = BASE.load(Ordering::Relaxed);
    (TOP.load(Ordering::Relaxed) == base).then_some((base - FRAME_SIZE) as *mut Frame)
}

/// Replaces the frame of the outermost entry: when its handler returns, the call in `frame` is made instead.
pub fn rewind(frame: &Frame) {
    let top = top_frame().unwrap_or_else(|| libc_abort());
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    unsafe { top.write(*frame) };
    AFTER.fetch_or(EXECUTE, Ordering::Relaxed);
}

/// Whether the handler that runs now should return as soon as it can, with any value.
pub fn is_rewound() -> bool {
    AFTER.load(Ordering::Relaxed) & EXECUTE != 0
}

/// The byte and the bit of it that a wait sets and the end of a call clears.
pub fn wait_mark() -> (&'static AtomicU8, u8) {
    (&AFTER, WAITED)
}

/// What this process waits for next is another wait.
pub fn end_wait() {
    AFTER.fetch_and(!WAITED, Ordering::Relaxed);
}

/// Whether [`crate::journal::record_call`] is called when a handler has returned.
pub fn set_recording(on: bool) {
    if on {
        AFTER.fetch_or(RECORD, Ordering::Relaxed);
    } else {
        AFTER.fetch_and(!RECORD, Ordering::Relaxed);
    }
}

/// Lets the program go on, on its own stack, as if the call in `frame` had returned `result`. Returns what
/// [`leave_user`] is given. What the program calls meanwhile runs below this on the runtime's stack.
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

/// The handler of a call that is answered from a journal, whatever it returns.
///
/// # Safety
/// Only for the dispatch table.
#[unsafe(naked)]
pub unsafe extern "C" fn answer() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {answer}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "movq xmm0, rax",
        "ret",
        ".cfi_endproc",
        answer = sym crate::journal::replay::answer,
    )
}

/// Has all slots answered from a journal, but those that `executed` selects.
pub fn answer_all(executed: impl Fn(usize) -> bool) {
    for (slot, entry) in DISPATCH.iter().enumerate() {
        if !executed(slot) {
            entry.store(answer as *mut c_void, Ordering::Relaxed);
        }
    }
}
