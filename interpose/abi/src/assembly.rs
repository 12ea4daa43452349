//! Instruction sequences that several parts of the hand-written x86-64 code use.
#![allow(unsafe_code)]

/// Surrounds instructions that switch to another stack, and restores the stack pointer.
///
/// The stack pointer is saved in rbp, which the instructions must preserve. The macro also emits
/// unwind directives, by which a debugger finds the caller through rbp. The function that uses the
/// macro must therefore begin with `.cfi_startproc`.
#[macro_export]
macro_rules! on_other_stack {
    ($($line:literal),* $(,)?) => {
        concat!(
            "push rbp\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset rbp, 0\n",
            "mov rbp, rsp\n .cfi_def_cfa_register rbp\n",
            $($line, "\n",)*
            "mov rsp, rbp\n pop rbp\n .cfi_def_cfa rsp, 8\n .cfi_same_value rbp",
        )
    };
}

/// Returns from a signal handler (rt_sigreturn(2)); for the field `sa_restorer` of an action.
///
/// # Safety
/// The stack pointer must be at the kernel's signal frame.
#[unsafe(naked)]
pub unsafe extern "C" fn return_from_signal() {
    core::arch::naked_asm!("mov eax, 15", "syscall", "ud2")
}
