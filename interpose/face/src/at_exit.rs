//! Exit of the program by exit(3), which is reported to the runtime.
//!
//! The launcher sees only the guardian. It therefore notifies no other rank if a rank exits without
//! MPI_Finalize. Without the report, the other ranks would wait for ever.
#![allow(unsafe_code)]

use crate::entry::{ENTRY, slot_count};
use crate::stack::on_stack;
use crate::{immediate_exit, mpi_lock, threads};
use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::{RUNTIME_STACK, RUNTIME_STACK_SIZE, control_block, libc_procedures};

/// The runtime's function for the exit.
///
/// libc's list of exit functions is part of the program's memory, so it must contain addresses that
/// are equal in every rank. It contains [`on_exit_handler`], which calls the runtime's function.
static EXIT_HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// The runtime's function that returns true if the exit requires a call of the runtime.
static NEEDS_CALL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Registers functions for the exit of the program.
///
/// exit(3) calls `hook` with the status, and _exit(2) calls `at_once`. If `needs_call` returns true
/// and the exiting thread may enter the runtime, exit(3) first calls the runtime's handler of the
/// slot [`understudy_abi::libc_procedures::EXIT_SLOT`].
///
/// # Safety
/// The caller must be on the program's stack, because this function calls on_exit(3) of the
/// program's libc.
pub unsafe extern "C" fn call_at_exit(
    hook: unsafe extern "C" fn(c_int),
    at_once: unsafe extern "C" fn(c_int),
    needs_call: unsafe extern "C" fn() -> bool,
) {
    immediate_exit::connect(at_once);
    NEEDS_CALL.store(needs_call as *mut c_void, Ordering::Release);
    if EXIT_HOOK
        .swap(hook as *mut c_void, Ordering::Release)
        .is_null()
    {
        // SAFETY: the caller is on the program's stack, and the handler has the type that
        // on_exit(3) calls.
        unsafe { on_exit(on_exit_handler, core::ptr::null_mut()) };
    }
}

/// Enters the runtime through a slot, as the thunk of an MPI procedure does.
///
/// The call does not return if the program is rolled back while the call runs.
///
/// # Safety
/// The slot must have no arguments.
#[unsafe(naked)]
unsafe extern "C" fn call_runtime(slot: usize) {
    naked_asm!("mov eax, edi", "jmp qword ptr [rip + {entry}]", entry = sym ENTRY)
}

unsafe extern "C" fn on_exit_handler(status: c_int, _: *mut c_void) {
    if !immediate_exit::is_for_this_process() {
        return;
    }
    let needs_call = NEEDS_CALL.load(Ordering::Acquire);
    // SAFETY: a function of this type, stored by `call_at_exit`; the call is made on the program's
    // stack.
    unsafe {
        let needs_call: Option<unsafe extern "C" fn() -> bool> = core::mem::transmute(needs_call);
        // Without the MPI lock, only the main thread may enter the runtime.
        let may_call = mpi_lock::is_enabled() || control_block::address() == threads::main();
        if may_call && needs_call.is_some_and(|needs_call| needs_call()) {
            call_runtime(slot_count() + libc_procedures::EXIT_SLOT);
        }
    }
    let argument = status as usize as *mut c_void;
    // SAFETY: `run_at_exit` calls this with the MPI lock, so no other thread uses the runtime's
    // stack, or in the main thread of a program in which only the main thread calls MPI. If exit(3)
    // was called in a callback, the runtime's code that has called the callback never resumes.
    let run = || unsafe { on_stack(argument, call_exit_hook, RUNTIME_STACK + RUNTIME_STACK_SIZE) };
    if !mpi_lock::run_at_exit(run) {
        immediate_exit::report_exit(status);
    }
}

/// Calls the runtime's function with the exit status, on the runtime's stack.
unsafe extern "C" fn call_exit_hook(argument: *mut c_void) {
    let hook = EXIT_HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: a function of this type, stored by `call_at_exit`.
        unsafe {
            let hook: unsafe extern "C" fn(c_int) = core::mem::transmute(hook);
            hook(argument as usize as c_int);
        }
    }
}
