//! Signals and code that stop threads of the program.

use core::ffi::c_int;

/// Signal that stops threads of the program: glibc's SIGSETXID.
///
/// libc's functions do not let a program block this signal.
pub const STOP_SIGNAL: c_int = 33;

/// Mask of the signals that threads of the runtime and MPI sides do not block.
///
/// Seven of the signals are caused by the thread itself (SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE,
/// SIGSEGV, SIGSYS); signals 32 and 33 belong to glibc. All other signals belong to the program,
/// and are blocked: otherwise the kernel would deliver a signal that all threads of the program
/// have blocked to a thread of the runtime or MPI side.
pub const OWN_SIGNALS: u64 = {
    const NUMBERS: [u32; 9] = [4, 5, 6, 7, 8, 11, 31, 32, 33];
    let mut mask = 0;
    let mut index = 0;
    while index < NUMBERS.len() {
        mask |= 1 << (NUMBERS[index] - 1);
        index += 1;
    }
    mask
};

/// Addresses in the code that stops threads.
///
/// The code is a handler of [`STOP_SIGNAL`], which is sent with a value (sigqueue(3)): the address
/// of a word that contains the address of a stack. The handler switches to that stack and calls
/// `park(value, frame)`, which blocks as long as the thread is stopped. `park` returns the frame
/// from which the thread resumes, and a flag: true if the interrupted system call must be
/// continued. A frame is the kernel's signal frame: a return address, followed by `ucontext_t`.
///
/// The addresses divide the code into sections, in this order. The runtime compares a saved
/// instruction pointer with them, to find out how far a thread had resumed when it was interrupted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StopCode {
    /// First instruction of the handler.
    pub handler: usize,
    /// Start of the code, up to `leave`, that continues the interrupted system call.
    ///
    /// The code runs on the thread's own stack, with the frame at its top.
    pub restart: usize,
    /// Instruction after restart_syscall(2), whose result is in rax.
    pub restarted: usize,
    /// Address from which on the frame contains the system call's result.
    pub result_stored: usize,
    /// Code that resumes from the frame to which the stack pointer points.
    pub leave: usize,
    /// Code that resumes from the frame that begins eight bytes below the stack pointer.
    ///
    /// Signal handlers return to this code (`sa_restorer`). The instruction `ret` of the handler
    /// has removed the frame's first word, the return address, from the stack.
    pub restorer: usize,
    /// First address past the code.
    pub end: usize,
    /// Word for the address of `park`; no thread is stopped while the word is 0.
    pub park: *mut usize,
    /// Word for the address of the program's handler.
    ///
    /// The handler receives the signals that the runtime did not send.
    pub other_handler: *mut usize,
}
