//! Keeps one warning of Open MPI from the user: with fault tolerance on, every program that makes a topology is told that
//! topologies are "not tested for post-failure operation". Here they are: communicators are rebuilt, never used after a
//! failure. All other help texts pass.
//!
//! `opal_show_help` is a variable of libopen-pal that holds the function which prints help texts; it is variadic, so the
//! filter hands on all registers as they are.
#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Puts the filter in front of the help function.
pub fn silence_topology_warning() {
    let variable = understudy_mpi::library::symbol(c"opal_show_help").cast::<*mut c_void>();
    if variable.is_null() {
        return;
    }
    // SAFETY: the variable holds the address of a function; the real library is initialised and has no other user of it
    // at this moment.
    unsafe {
        NEXT.store(variable.read(), Ordering::Relaxed);
        variable.write(filter as *mut c_void);
    }
}

extern "C" fn is_unwanted(file: *const c_char, topic: *const c_char) -> bool {
    // SAFETY: the help function's first two arguments are the names of a file and of a topic.
    unsafe {
        !file.is_null()
            && !topic.is_null()
            && CStr::from_ptr(file) == c"help-mpi-ft.txt"
            && CStr::from_ptr(topic).to_bytes().starts_with(b"module:untested")
    }
}

/// `int opal_show_help(const char *file, const char *topic, int want_error_header, ...)`
#[unsafe(naked)]
unsafe extern "C" fn filter() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "call {is_unwanted}",
        "mov r11d, eax",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test r11b, r11b",
        "jnz 2f",
        "jmp qword ptr [rip + {next}]",
        "2: xor eax, eax",
        "ret",
        is_unwanted = sym is_unwanted,
        next = sym NEXT,
    )
}
