//! State of the system call filter, and system calls from inside of the reserved range.
#![allow(unsafe_code)]

use crate::journal::inputs::Asked;
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;

/// Length in bytes of the kernel's `struct sigaction`.
pub(super) const SIGACTION: usize = 32;
/// Number of words of a `stack_t`.
pub(super) const STACK: usize = 3;

/// Device and inode, which identify a file in memory for all its descriptors.
pub type Place = (u64, u64);

/// Recorded and emulated answers of a replay.
#[derive(Default)]
pub struct Hold {
    /// Recorded reads of files.
    pub(super) asked: Asked,
    /// Files that the program created or changed: descriptors, by the key of open(2).
    pub(super) by_path: HashMap<Vec<u8>, c_int>,
    /// All files in memory that the replay has made.
    pub(super) own: HashSet<Place>,
    /// Recorded results of stat(2) for files in memory with recorded contents.
    pub(super) stats: HashMap<Place, Vec<u8>>,
    /// The program's handler for SIGSYS, which the filter uses.
    pub(super) on_sigsys: [u8; SIGACTION],
    /// The program's alternate stack, after its first sigaltstack(2).
    pub(super) stack: Option<[u64; STACK]>,
}

/// Disposition of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Answer(i64),
    GiveUp,
    /// The replay ends, as the file with this number has changed.
    Changed(u32),
}

/// Makes a system call from inside of the reserved range, where no filter applies.
pub(super) unsafe fn make(number: i64, arguments: &[i64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller guarantees it.
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
