//! State of the system call filter, and system calls from inside of the reserved range.
#![allow(unsafe_code)]

use crate::journal::inputs::ReplayInputs;
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;

/// Length in bytes of the kernel's `struct sigaction`.
pub(super) const SIGACTION: usize = 32;
/// Number of words of a `stack_t`.
pub(super) const STACK_WORDS: usize = 3;

/// Device and inode, which identify a file in memory for all its descriptors.
pub type FileId = (u64, u64);

/// Recorded and emulated answers of a replay.
#[derive(Default)]
pub struct FilterState {
    /// Recorded outcomes of system calls.
    pub(super) inputs: ReplayInputs,
    /// Files in memory that the program created or changed: the runtime's descriptors, by name.
    pub(super) descriptors_by_open: HashMap<Vec<u8>, c_int>,
    /// All files in memory that the replay has created.
    pub(super) memory_files: HashSet<FileId>,
    /// Recorded results of stat(2) for files in memory with recorded contents.
    pub(super) stats: HashMap<FileId, Vec<u8>>,
    /// Action that the program has set for SIGSYS, whose real action is the filter's.
    pub(super) on_sigsys: [u8; SIGACTION],
    /// The program's alternate stack, after its first sigaltstack(2).
    pub(super) stack: Option<[u64; STACK_WORDS]>,
}

/// Disposition of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallDisposition {
    /// The call is executed.
    Pass,
    /// The call returns this value, and is not executed.
    ReturnValue(i64),
    /// The replay ends.
    EndReplay,
    /// The replay ends, as the long file with this index has changed.
    InputChanged(u32),
}

/// Makes a system call from inside of the reserved range, where no filter applies.
///
/// # Safety
/// The requirements of the system call apply.
pub(super) unsafe fn syscall(number: i64, arguments: &[i64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller passes valid arguments of the call; of the registers, the kernel changes
    // only rax, rcx and r11.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}
