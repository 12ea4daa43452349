//! Stops threads of the program with a signal.
//!
//! libc's functions do not let the program block this signal.
//!
//! The handler is in this library because its address must be equal in all ranks. While a stopped
//! thread resumes, a handler of the program may interrupt it. That handler's frame leads back to
//! this code and may be saved. The runtime performs the work ([`StopCode`]).
#![allow(unsafe_code)]

use crate::sys::{nr, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_abi::{STOP_SIGNAL, StopCode};

static PARK: AtomicUsize = AtomicUsize::new(0);
/// Handler that was installed before, for signals that are not the runtime's.
static OTHERS: AtomicUsize = AtomicUsize::new(0);

/// Number of restart_syscall(2).
const RESTART: usize = 219;
/// Offset of rax in the kernel's frame, which begins with a return address.
///
/// The next constants are the offsets of rip and of the signal mask of `ucontext_t`.
const RAX: usize = 152;
const RIP: usize = 176;
const MASK: usize = 304;
/// Offset of the code in `siginfo_t`.
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

// The thread resumes from the kernel's frame at rsp. The handler leaves the stack of that frame at
// once, because memory may be loaded meanwhile. It uses a stack in the reserved range, whose
// address the signal carries. The runtime's function returns the frame from which the thread
// resumes, and a flag that is nonzero if the interrupted system call must be continued. The call is
// continued with the remaining time, which the kernel stores until the thread returns to the frame.
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
    others = sym OTHERS,
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
        noted: address(understudy_stop_noted),
        leave: address(understudy_stop_leave),
        restorer: address(understudy_stop_return),
        end: address(understudy_stop_end),
        park: PARK.as_ptr(),
        others: OTHERS.as_ptr(),
    }
}

fn set(how: usize) {
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

/// Keeps the calling thread from being stopped.
pub fn block() {
    set(0);
}

/// Lets the calling thread be stopped again.
pub fn unblock() {
    set(1);
}

pub fn give_way() {
    // SAFETY: sched_yield(2).
    unsafe { sys!(nr::SCHED_YIELD) };
}
