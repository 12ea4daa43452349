//! Entry of calls that take the MPI lock.
//!
//! The entry saves the arguments of a call, takes the lock, calls the runtime's entry, and
//! releases the lock when the runtime returns. If the runtime requests a repetition, the entry
//! then releases the lock and makes the call again with the saved arguments. The runtime can also
//! resume a restored thread at the label `understudy_lock_repeat`, from which on the call is made
//! with the saved arguments.
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

/// Entries of the runtime, which are called with the lock.
///
/// The first one is for any number of arguments, the second one for calls without stack arguments.
static ENTER: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];

// The frame below rbp contains a `SavedCall`. The runtime's entry is called with the registers of
// the program's call. For a call with stack arguments, eight words of the program's stack are
// copied below the frame, where the runtime's entry finds them above its return address.
core::arch::global_asm!(
    ".hidden understudy_lock_enter_registers", ".globl understudy_lock_enter_registers",
    "understudy_lock_enter_registers:",
    ".cfi_startproc",
    "mov r10, 0x100000000",
    "or rax, r10",
    "jmp understudy_lock_enter",
    ".cfi_endproc",
    ".hidden understudy_lock_enter", ".globl understudy_lock_enter",
    "understudy_lock_enter:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rdi", "push rsi", "push rdx", "push rcx",
    "push r8", "push r9", "push rax", "push 0",
    ".hidden understudy_lock_repeat", ".globl understudy_lock_repeat",
    "understudy_lock_repeat:",
    "lea rsp, [rbp - 64]",
    "mov rdi, rsp",
    "call {begin_call}",
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
    ".hidden understudy_lock_returned", ".globl understudy_lock_returned",
    "understudy_lock_returned:",
    "lea rsp, [rbp - 64]",
    "cmp dword ptr [rip + {lock} + {must_repeat}], 0",
    "jne 4f",
    "mov qword ptr [rbp - 56], rax",
    "movsd qword ptr [rbp - 48], xmm0",
    "mov rdi, rsp",
    "call {end_call}",
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
    "call {answer_query}",
    "jmp 3b",
    "4: mov rdi, rsp",
    "call {yield_and_repeat}",
    "jmp understudy_lock_repeat",
    ".cfi_endproc",
    begin_call = sym begin_call,
    end_call = sym end_call,
    answer_query = sym answer_query,
    yield_and_repeat = sym yield_and_repeat,
    lock = sym LOCK_STATE,
    must_repeat = const core::mem::offset_of!(MpiLock, must_repeat),
    enter = sym ENTER,
);

unsafe extern "C" {
    fn understudy_lock_enter_registers();
    fn understudy_lock_enter();
    fn understudy_lock_repeat();
    fn understudy_lock_returned();
}

/// Returns the addresses of this code for the runtime.
pub fn code() -> MpiLockCode {
    MpiLockCode {
        repeat_call: understudy_lock_repeat as *const () as usize,
        return_address: understudy_lock_returned as *const () as usize,
        enable,
        enable_for_main,
        run_callback,
        lock: &raw const LOCK_STATE,
    }
}

/// Makes the calls of all threads take the lock.
///
/// # Safety
/// The caller must be the main thread, in a call of MPI.
unsafe extern "C" fn enable() {
    if !is_enabled() {
        enable_for_main();
        LOCK_STATE.is_shared.store(1, Ordering::SeqCst);
        threads::set_work_flags(LOCK_STATE.work_flags.load(Ordering::Relaxed));
    }
}

/// Makes calls of the main thread take the lock from now on.
///
/// The main thread may still be in a call that did not take the lock, so other threads cannot take
/// the lock yet.
extern "C" fn enable_for_main() {
    let enter = understudy_lock_enter as *const c_void;
    if ENTER[0].load(Ordering::Relaxed).is_null() {
        for (target, entry) in ENTER.iter().zip([ENTRIES - 1, 0]) {
            target.store(ENTRY[entry].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        PROCESS.store(process(), Ordering::Relaxed);
        let mut entries = [enter; ENTRIES];
        entries[0] = understudy_lock_enter_registers as *const c_void;
        connect(&entries);
        libc_procedures::enter_by(enter);
    }
}
