//! Calls on another stack.
#![allow(unsafe_code)]

use core::arch::naked_asm;
use core::ffi::c_void;

/// Calls `function(argument)` on another stack, whose highest address is `top`.
///
/// # Safety
/// There must be nothing on that stack that is still needed; the rest as for the function.
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(
    argument: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void),
    top: usize,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}
