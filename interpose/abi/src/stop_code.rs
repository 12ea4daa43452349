//! Signals and code that stop threads of the program.

use core::ffi::c_int;

/// Signal that stops threads of the program: glibc's SIGSETXID.
///
/// A program cannot block it by libc's functions.
pub const STOP_SIGNAL: c_int = 33;

/// Mask of the signals that threads of the runtime and MPI sides do not block.
///
/// A thread causes these signals itself (SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV,
/// SIGSYS); two more are glibc's. All others are the program's: the kernel would give one that the
/// program has blocked to such a thread.
pub const OWN_SIGNALS: u64 = {
    const NUMBERS: [u32; 9] = [4, 5, 6, 7, 8, 11, 31, 32, 33];
    let mut mask = 0;
    let mut at = 0;
    while at < NUMBERS.len() {
        mask |= 1 << (NUMBERS[at] - 1);
        at += 1;
    }
    mask
};

/// Addresses in the code that stops threads.
///
/// That is a handler of [`STOP_SIGNAL`] for signals whose value is the address of a word with a
/// stack to be used. It calls `park(value, frame)`, which returns the frame to go on from, and a
/// flag that has the interrupted system call continued. A frame begins with a return address, then
/// `ucontext_t` follows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StopCode {
    pub handler: usize,
    /// Code up to `leave` that continues the system call.
    ///
    /// It runs on the thread's own stack, whose top is the frame.
    pub restart: usize,
    pub restarted: usize,
    /// Place from which the call's result is in the frame.
    pub noted: usize,
    /// Return to the frame, whose address is in the stack pointer.
    pub leave: usize,
    /// Return to the frame eight bytes lower.
    ///
    /// Also the kernel's way back from handlers (`sa_restorer`).
    pub restorer: usize,
    pub end: usize,
    /// Place for the address of `park`; as long as it is 0, no thread is stopped.
    pub park: *mut usize,
    /// The handler for all other signals of this number.
    pub others: *mut usize,
}
