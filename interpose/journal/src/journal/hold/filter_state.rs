//! State of the system call filter, and system calls made from inside of the zone.
#![allow(unsafe_code)]

use crate::journal::inputs::Asked;
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;

/// Bytes of the kernel's `struct sigaction`.
pub(super) const SIGACTION: usize = 32;
/// Number of words of a `stack_t`.
pub(super) const STACK: usize = 3;

/// Device and inode, by which a file in memory is known, whatever descriptor it has.
pub type Place = (u64, u64);

/// Answers that a replay gets in place of effects and questions.
#[derive(Default)]
pub struct Hold {
    /// Reads of files.
    pub(super) asked: Asked,
    /// Files that the program has made or changed: descriptors, by how they were opened.
    pub(super) by_path: HashMap<Vec<u8>, c_int>,
    /// All files in memory.
    pub(super) own: HashSet<Place>,
    /// Results of stat(2) for the files whose contents these have.
    pub(super) stats: HashMap<Place, Vec<u8>>,
    /// The program's handler for the signal that is used here.
    pub(super) on_sigsys: [u8; SIGACTION],
    /// The program's alternate stack, once it has asked for it.
    pub(super) stack: Option<[u64; STACK]>,
}

/// Treatment of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Answer(i64),
    GiveUp,
    /// The replay ends, since the file with this number is not what it was.
    Changed(u32),
}

/// Makes a system call from here, that is, from inside of the zone.
pub(super) unsafe fn make(number: i64, arguments: &[i64; 6]) -> i64 {
    let result: i64;
    // SAFETY: handed on to the caller.
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
