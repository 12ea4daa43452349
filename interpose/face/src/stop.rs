//! Stops threads of the program with a signal ([`STOP_SIGNAL`]).
//!
//! The runtime decides which threads to stop, and saves and restores them ([`StopCode`]). Only the
//! signal handler is in this library, because its address must be equal in all ranks: while a
//! stopped thread resumes in this code, a handler of the program may interrupt it. The frame of
//! that handler contains an address of this code, and may become part of a checkpoint.
#![allow(unsafe_code)]

use crate::sys::{nr, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_abi::{STOP_SIGNAL, StopCode};

/// Address of the runtime's function `park`; zero without a runtime.
static PARK: AtomicUsize = AtomicUsize::new(0);
/// Former handler, which receives the signals that the runtime did not send.
static OTHER_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Number of restart_syscall(2).
const RESTART: usize = 219;
/// Offset of the saved rax in the kernel's frame, which begins with a return address.
const RAX: usize = 152;
/// Offset of the saved rip in the kernel's frame.
const RIP: usize = 176;
/// Offset of the saved signal mask in the kernel's frame.
const MASK: usize = 304;
/// Offset of the field si_code in `siginfo_t`.
const CODE: usize = 8;
/// Offset of the field si_value in `siginfo_t`.
const VALUE: usize = 24;

unsafe extern "C" {
    fn understudy_stop_handler();
    fn understudy_stop_restart();
    fn understudy_stop_restarted();
    fn understudy_stop_noted();
    fn understudy_stop_leave();
    fn understudy_stop_return();
    fn understudy_stop_end();
}

// The kernel's frame is at rsp. The handler leaves the stack of that frame at once, because a
// rollback overwrites this stack while the thread is stopped. The handler switches to a stack in
// the reserved range, whose address the signal carries, and calls `park` on that stack.
//
// If the signal has interrupted a system call with a timeout (such as nanosleep(2)), the call is
// continued by restart_syscall(2), for which the kernel has stored the remaining time. The kernel
// discards that time when the thread returns to the frame, so the call is continued before this
// return: with the frame's signal mask, and with the result stored in the frame's rax. The frame's
// rip, which points to the `syscall` instruction (two bytes), is then moved past that instruction.
core::arch::global_asm!(
    ".hidden understudy_stop_handler",
    ".globl understudy_stop_handler",
    "understudy_stop_handler:",
    "cmp dword ptr [rsi + {code}], -1", // SI_QUEUE
    "jne 9f",
    "mov r12, qword ptr [rsi + {value}]",
    "mov rsi, rsp",
    "mov rsp, qword ptr [r12]",
    "mov rdi, r12",
    "call qword ptr [rip + {park}]",
    "mov rsp, rax",
    "test edx, edx",
    "je understudy_stop_leave",
    ".hidden understudy_stop_restart",
    ".globl understudy_stop_restart",
    "understudy_stop_restart:",
    "lea rsi, [rsp + {mask}]",
    "mov edi, 2",
    "xor edx, edx",
    "mov r10d, 8",
    "mov eax, 14", // rt_sigprocmask(2)
    "syscall",
    "mov eax, {restart}",
    "syscall",
    ".hidden understudy_stop_restarted",
    ".globl understudy_stop_restarted",
    "understudy_stop_restarted:",
    "mov qword ptr [rsp + {rax}], rax",
    ".hidden understudy_stop_noted",
    ".globl understudy_stop_noted",
    "understudy_stop_noted:",
    "add qword ptr [rsp + {rip}], 2",
    ".hidden understudy_stop_leave",
    ".globl understudy_stop_leave",
    "understudy_stop_leave:",
    "add rsp, 8",
    ".hidden understudy_stop_return",
    ".globl understudy_stop_return",
    "understudy_stop_return:",
    "mov eax, 15", // rt_sigreturn(2)
    "syscall",
    ".hidden understudy_stop_end",
    ".globl understudy_stop_end",
    "understudy_stop_end:",
    "ud2",
    "9: mov rax, qword ptr [rip + {others}]",
    "cmp rax, 1", // neither the default nor ignored
    "jbe 8f",
    "jmp rax",
    "8: ret",
    code = const CODE,
    value = const VALUE,
    park = sym PARK,
    others = sym OTHER_HANDLER,
    restart = const RESTART,
    rax = const RAX,
    rip = const RIP,
    mask = const MASK,
);

/// Returns the addresses of this code for the runtime.
pub fn code() -> StopCode {
    let address = |label: unsafe extern "C" fn()| label as *const () as usize;
    StopCode {
        handler: address(understudy_stop_handler),
        restart: address(understudy_stop_restart),
        restarted: address(understudy_stop_restarted),
        result_stored: address(understudy_stop_noted),
        leave: address(understudy_stop_leave),
        restorer: address(understudy_stop_return),
        end: address(understudy_stop_end),
        park: PARK.as_ptr(),
        other_handler: OTHER_HANDLER.as_ptr(),
    }
}

/// Blocks ([`SIG_BLOCK`]) or unblocks ([`SIG_UNBLOCK`]) the signal in the calling thread.
fn change_mask(how: usize) {
    // Without a runtime, no thread is stopped.
    if PARK.load(Ordering::Relaxed) != 0 {
        let signal = 1u64 << (STOP_SIGNAL - 1);
        // SAFETY: rt_sigprocmask(2) with a set in this frame.
        unsafe {
            sys!(
                nr::RT_SIGPROCMASK,
                how,
                &raw const signal,
                core::ptr::null::<c_void>(),
                8
            )
        };
    }
}

const SIG_BLOCK: usize = 0;
const SIG_UNBLOCK: usize = 1;

/// Keeps the calling thread from being stopped.
pub fn block() {
    change_mask(SIG_BLOCK);
}

/// Ends the effect of [`block`].
pub fn unblock() {
    change_mask(SIG_UNBLOCK);
}

pub fn yield_processor() {
    // SAFETY: sched_yield(2) has no preconditions.
    unsafe { sys!(nr::SCHED_YIELD) };
}
