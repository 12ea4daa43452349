//! Signals and code that stop threads of the program.

use core::ffi::c_int;

/// Signal that stops threads of the program: glibc's SIGSETXID.
///
/// libc's functions do not let a program block it.
pub const STOP_SIGNAL: c_int = 33;

/// Mask of the signals that threads of the runtime and MPI sides do not block.
///
/// A thread causes seven of them itself (SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV,
/// SIGSYS); two more are glibc's. All other signals are the program's: if the program has blocked
/// one, the kernel would deliver it to a thread that has not.
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
/// The code is a handler of [`STOP_SIGNAL`]. The value of the signal is the address of a word that
/// contains the address of a stack. The handler switches to that stack and calls
/// `park(value, frame)`. `park` returns the frame from which the thread resumes, and a flag that
/// requests the continuation of the interrupted system call. A frame begins with a return address,
/// and `ucontext_t` follows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StopCode {
    pub handler: usize,
    /// Start of the code, up to `leave`, that continues the system call.
    ///
    /// The code runs on the thread's own stack, with the frame at its top.
    pub restart: usize,
    pub restarted: usize,
    /// Address from which on the frame contains the call's result.
    pub result_stored: usize,
    /// Code that resumes from the frame to which the stack pointer points.
    pub leave: usize,
    /// Code that resumes from the frame eight bytes below the stack pointer.
    ///
    /// The kernel also uses it to return from handlers (`sa_restorer`).
    pub restorer: usize,
    pub end: usize,
    /// Word for the address of `park`; no thread is stopped while it is 0.
    pub park: *mut usize,
    /// Word for the address of the handler of all other signals of this number.
    pub other_handler: *mut usize,
}
