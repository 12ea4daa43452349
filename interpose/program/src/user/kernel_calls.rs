//! Counters of calls that leave state in the kernel.
#![allow(unsafe_code)]

use crate::process_info;
use understudy_abi::kernel_use::KernelUse;

pub(super) fn kernel_calls() -> &'static KernelUse {
    // SAFETY: the preload library's counters live as long as the process.
    unsafe { &*process_info::info().program_kernel_use }
}
