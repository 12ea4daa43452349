//! Entry of calls that take the MPI lock.
//!
//! The entry saves the arguments of a call, takes the lock and calls the runtime's entry.
#![allow(unsafe_code)]

use crate::entry::{ENTRY, connect};
use crate::mpi_lock::{
    LOCK_STATE, PROCESS, answer_query, begin_call, end_call, is_enabled, process, run_callback,
    yield_and_repeat,
};
use crate::{libc_procedures, threads};
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::ENTRIES;
use understudy_abi::mpi_lock::{MpiLock, MpiLockCode};

/// Entries of the runtime behind the lock.
///
/// The first one is for any number of arguments, the second one for calls without stack arguments.
static ENTER: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];

// The runtime's entry finds the registers and stack words of the program's call. It is called, not
// jumped to, and returns to this code.
core::arch::global_asm!(
    ".hidden understudy_turn_enter_few", ".globl understudy_turn_enter_few",
    "understudy_turn_enter_few:",
    ".cfi_startproc",
    "mov r10, 0x100000000",
    "or rax, r10",
    "jmp understudy_turn_enter",
    ".cfi_endproc",
    ".hidden understudy_turn_enter", ".globl understudy_turn_enter",
    "understudy_turn_enter:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rdi", "push rsi", "push rdx", "push rcx",
    "push r8", "push r9", "push rax", "push 0",
    ".hidden understudy_turn_again", ".globl understudy_turn_again",
    "understudy_turn_again:",
    "lea rsp, [rbp - 64]",
    "mov rdi, rsp",
    "call {take}",
    "test eax, eax",
    "jne 2f",
    "mov r11d, dword ptr [rbp - 52]",
    "test r11d, r11d",
    "jne 5f",
    "push qword ptr [rbp + 72]", "push qword ptr [rbp + 64]",
    "push qword ptr [rbp + 56]", "push qword ptr [rbp + 48]",
    "push qword ptr [rbp + 40]", "push qword ptr [rbp + 32]",
    "push qword ptr [rbp + 24]", "push qword ptr [rbp + 16]",
    "5: mov rdi, qword ptr [rbp - 8]", "mov rsi, qword ptr [rbp - 16]",
    "mov rdx, qword ptr [rbp - 24]", "mov rcx, qword ptr [rbp - 32]",
    "mov r8, qword ptr [rbp - 40]", "mov r9, qword ptr [rbp - 48]",
    "mov eax, dword ptr [rbp - 56]",
    "lea r10, [rip + {enter}]",
    "call qword ptr [r10 + r11 * 8]",
    ".hidden understudy_turn_returned", ".globl understudy_turn_returned",
    "understudy_turn_returned:",
    "lea rsp, [rbp - 64]",
    "cmp dword ptr [rip + {turn} + {again}], 0",
    "jne 4f",
    "mov qword ptr [rbp - 56], rax",
    "movsd qword ptr [rbp - 48], xmm0",
    "mov rdi, rsp",
    "call {end}",
    "movsd xmm0, qword ptr [rbp - 48]",
    "mov rax, qword ptr [rbp - 56]",
    "3: mov rsp, rbp",
    "pop rbp",
    ".cfi_remember_state",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_restore_state",
    "2: mov rdi, qword ptr [rbp - 8]",
    "mov rsi, qword ptr [rbp - 16]",
    "mov rdx, qword ptr [rbp - 56]",
    "call {question}",
    "jmp 3b",
    "4: mov rdi, rsp",
    "call {stand_back}",
    "jmp understudy_turn_again",
    ".cfi_endproc",
    take = sym begin_call, end = sym end_call, question = sym answer_query, stand_back = sym yield_and_repeat,
    turn = sym LOCK_STATE, again = const core::mem::offset_of!(MpiLock, must_repeat), enter = sym ENTER,
);

unsafe extern "C" {
    fn understudy_turn_enter_few();
    fn understudy_turn_enter();
    fn understudy_turn_again();
    fn understudy_turn_returned();
}

/// Returns the addresses of this code for the runtime.
pub fn code() -> MpiLockCode {
    MpiLockCode {
        repeat_call: understudy_turn_again as *const () as usize,
        return_address: understudy_turn_returned as *const () as usize,
        enable,
        enable_for_main,
        run_callback,
        lock: &raw const LOCK_STATE,
    }
}

/// Makes all calls take the lock; for the main thread, in a call.
unsafe extern "C" fn enable() {
    if !is_enabled() {
        enable_for_main();
        LOCK_STATE.is_shared.store(1, Ordering::SeqCst);
        threads::set_work_flags(LOCK_STATE.work_flags.load(Ordering::Relaxed));
    }
}

/// Makes calls take the lock from now on.
///
/// The main thread may be in a call without the lock, so other threads cannot take the lock yet.
extern "C" fn enable_for_main() {
    let enter = understudy_turn_enter as *const c_void;
    if ENTER[0].load(Ordering::Relaxed).is_null() {
        for (place, entry) in ENTER.iter().zip([ENTRIES - 1, 0]) {
            place.store(ENTRY[entry].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        PROCESS.store(process(), Ordering::Relaxed);
        let mut entries = [enter; ENTRIES];
        entries[0] = understudy_turn_enter_few as *const c_void;
        connect(&entries);
        libc_procedures::enter_by(enter);
    }
}
