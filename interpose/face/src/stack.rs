//! Calls on other stacks.
#![allow(unsafe_code)]

use core::arch::naked_asm;
use core::ffi::c_void;
use understudy_abi::on_other_stack;

/// Surrounds instructions with code that saves and restores the integer argument registers.
///
/// rax is among the saved registers, because it contains the slot, or the number of vector
/// registers of a variadic call.
macro_rules! with_arguments_kept {
    ($($line:literal),* $(,)?) => {
        concat!(
            "push rdi\n push rsi\n push rdx\n push rcx\n push r8\n push r9\n push rax\n",
            $($line, "\n",)*
            "pop rax\n pop r9\n pop r8\n pop rcx\n pop rdx\n pop rsi\n pop rdi",
        )
    };
}
pub(crate) use with_arguments_kept;

/// Calls `function(argument)` on another stack, whose highest address is `top`.
///
/// # Safety
/// The content of that stack must not be needed any more. The function's requirements must be met.
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(
    argument: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void),
    top: usize,
) {
    naked_asm!(
        ".cfi_startproc",
        on_other_stack!("mov rsp, rdx", "call rsi"),
        "ret",
        ".cfi_endproc",
    )
}
