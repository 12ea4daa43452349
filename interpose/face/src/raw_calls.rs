//! syscall(2) of the program: some system calls are treated like calls of libc's functions.
#![allow(unsafe_code)]

use crate::kernel_use::{self, MBIND, SET_MEMPOLICY_HOME_NODE};
use crate::libc::next;
use crate::stack::with_arguments_kept;
use crate::{closing, hash_seed, kernel_aio};
use core::arch::naked_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};

const CLOSE: usize = 3;
const GETRANDOM: usize = 318;
const CLOSE_RANGE: usize = 436;

/// libc's syscall(2); before the first call, the function that finds it.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(find as *mut c_void);

/// syscall(2).
///
/// close(2), close_range(2), Python's request for a hash seed by getrandom(2), and kernel AIO are
/// passed to functions of this library, with the arguments moved by one register. All other calls
/// are passed to libc; those that set NUMA policies are counted before.
///
/// # Safety
/// The requirements of syscall(2) apply.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall() {
    naked_asm!(
        "cmp rdi, {close_number}",
        "je 3f",
        "cmp rdi, {close_range_number}",
        "je 4f",
        "cmp rdi, {getrandom_number}",
        "je 5f",
        "cmp rdi, {mbind_number}",
        "je 6f",
        "cmp rdi, {home_node_number}",
        "je 6f",
        "cmp rdi, {io_setup_number}",
        "je 7f",
        "cmp rdi, {io_destroy_number}",
        "je 8f",
        "cmp rdi, {io_submit_number}",
        "je 9f",
        "2: jmp qword ptr [rip + {real}]",
        "3: mov edi, esi",
        "sub rsp, 8",
        "call {close}",
        "cdqe",
        "add rsp, 8",
        "ret",
        "4: mov edi, esi",
        "mov esi, edx",
        "mov edx, ecx",
        "sub rsp, 8",
        "call {close_range}",
        "cdqe",
        "add rsp, 8",
        "ret",
        "5: cmp byte ptr [rip + {is_pending}], 0",
        "je 2b",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov edx, ecx",
        "mov rcx, qword ptr [rsp]",
        "jmp {answer}",
        "6:",
        with_arguments_kept!("call {count_policy}"),
        "jmp 2b",
        "7: mov edi, esi",
        "mov rsi, rdx",
        "jmp {io_setup}",
        "8: mov rdi, rsi",
        "jmp {io_destroy}",
        "9: mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "jmp {io_submit}",
        close_number = const CLOSE,
        close_range_number = const CLOSE_RANGE,
        getrandom_number = const GETRANDOM,
        io_setup_number = const kernel_aio::IO_SETUP,
        io_destroy_number = const kernel_aio::IO_DESTROY,
        io_submit_number = const kernel_aio::IO_SUBMIT,
        close = sym closing::close,
        close_range = sym closing::close_range,
        is_pending = sym hash_seed::IS_PENDING,
        answer = sym hash_seed::answer,
        mbind_number = const MBIND,
        home_node_number = const SET_MEMPOLICY_HOME_NODE,
        count_policy = sym kernel_use::count_policy,
        io_setup = sym kernel_aio::io_setup,
        io_destroy = sym kernel_aio::io_destroy,
        io_submit = sym kernel_aio::io_submit,
        real = sym REAL,
    )
}

/// Finds libc's syscall(2) and jumps to it with unchanged argument registers.
#[unsafe(naked)]
unsafe extern "C" fn find() {
    naked_asm!(
        with_arguments_kept!("call {find_real}", "mov r11, rax"),
        "jmp r11",
        find_real = sym find_real,
    )
}

extern "C" fn find_real() -> *mut c_void {
    static LIBC_SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    let real = next(&LIBC_SYSCALL, c"syscall");
    REAL.store(real, Ordering::Relaxed);
    real
}
