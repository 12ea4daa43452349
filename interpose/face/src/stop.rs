//! Where threads of the program are stopped: the handler of a signal that they cannot block by
//! libc's functions.
//!
//! It is here, since its address must be the same in all ranks: while a thread is let go, a handler
//! of the program may interrupt it, whose frame leads back here and may be saved. What is done is
//! the runtime's ([`StopCode`]).
#![allow(unsafe_code)]

use crate::sys::{nr, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_abi::{STOP_SIGNAL, StopCode};

static PARK: AtomicUsize = AtomicUsize::new(0);
/// The handler that was there before, for signals that are not the runtime's.
static OTHERS: AtomicUsize = AtomicUsize::new(0);

/// Number of restart_syscall(2).
const RESTART: usize = 219;
/// In the kernel's frame, which begins with a return address: rax, rip and the signal mask of
/// `ucontext_t`.
const RAX: usize = 152;
const RIP: usize = 176;
const MASK: usize = 304;
/// Offset in `siginfo_t`.
const CODE: usize = 8;
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

// The kernel's frame, at rsp, is what the thread is to go on from. The stack that it lies on is
// left at once, for one in the zone whose address the signal brings: memory may be loaded
// meanwhile. The runtime's function returns the frame to go on from, and whether the system call is
// to be continued that the signal has interrupted: with the time that is left, which the kernel
// knows until the frame is returned to.
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
    "cmp rax, 1", // neither the default nor to be ignored
    "jbe 8f",
    "jmp rax",
    "8: ret",
    code = const CODE,
    value = const VALUE,
    park = sym PARK,
    others = sym OTHERS,
    restart = const RESTART,
    rax = const RAX,
    rip = const RIP,
    mask = const MASK,
);

/// What the runtime needs to know of it.
pub fn code() -> StopCode {
    let address = |label: unsafe extern "C" fn()| label as *const () as usize;
    StopCode {
        handler: address(understudy_stop_handler),
        restart: address(understudy_stop_restart),
        restarted: address(understudy_stop_restarted),
        noted: address(understudy_stop_noted),
        leave: address(understudy_stop_leave),
        restorer: address(understudy_stop_return),
        end: address(understudy_stop_end),
        park: PARK.as_ptr(),
        others: OTHERS.as_ptr(),
    }
}

fn set(how: usize) {
    // Without a runtime nobody is stopped.
    if PARK.load(Ordering::Relaxed) != 0 {
        let signal = 1u64 << (STOP_SIGNAL - 1);
        // SAFETY: rt_sigprocmask(2) of a set of this frame.
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

/// The calling thread is not to be stopped now.
pub fn block() {
    set(0);
}

/// It may be stopped again.
pub fn unblock() {
    set(1);
}

pub fn give_way() {
    // SAFETY: sched_yield(2).
    unsafe { sys!(nr::SCHED_YIELD) };
}
