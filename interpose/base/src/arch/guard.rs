//! x86-64: calls that a signal handler can end, and the position that a signal interrupted.
#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Stack pointer of the current [`guarded`] call, or 0.
static ESCAPE: AtomicUsize = AtomicUsize::new(0);

/// Calls `function(argument)` so that a signal handler can end the call ([`escape_from`]).
///
/// Acts like setjmp(3): saves the preserved registers on the stack, and the stack pointer in
/// `ESCAPE`. `end_guarded_call` acts like longjmp(3): it restores the registers and the stack
/// pointer, and returns to the caller of `guarded`. If the function returns normally, `guarded`
/// ends by the same code. r15 is pushed twice to align the stack.
///
/// # Safety
/// The function must tolerate being ended at any point.
#[unsafe(naked)]
pub unsafe extern "C" fn guarded(
    argument: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void),
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push r15",
        "mov qword ptr [rip + {escape}], rsp",
        "call rsi",
        "jmp {escaped}",
        ".cfi_endproc",
        escape = sym ESCAPE,
        escaped = sym end_guarded_call,
    )
}

/// Ends a guarded call from any depth of calls.
///
/// # Safety
/// A guarded call must be under way.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn end_guarded_call() -> ! {
    naked_asm!(
        "mov rsp, qword ptr [rip + {escape}]",
        "mov qword ptr [rip + {escape}], 0",
        "pop r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        escape = sym ESCAPE,
    )
}

/// Makes the current guarded call end when the signal handler returns.
///
/// To be called in the handler. Returns false if no guarded call is under way.
pub fn escape_from(context: &mut libc::ucontext_t) -> bool {
    let stack = ESCAPE.load(Ordering::Relaxed);
    if stack == 0 {
        return false;
    }
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RSP as usize] = stack as i64;
    registers[libc::REG_RIP as usize] = end_guarded_call as *const () as i64;
    // The interrupted code may have set the direction flag to copy backwards. The ABI requires that
    // the flag is clear when a function returns.
    const DIRECTION: i64 = 1 << 10;
    registers[libc::REG_EFL as usize] &= !DIRECTION;
    true
}

/// Returns the address of the instruction that a signal has interrupted.
pub fn interrupted_address(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64
}
