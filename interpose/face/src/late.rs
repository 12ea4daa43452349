//! Programs that load the MPI library late: an interpreter that imports it, an application whose solvers are plug-ins.
//!
//! The second execution must come before the program's first instruction, long before anybody knows whether it is going
//! to use MPI. So what the launcher itself has started is prepared as an MPI program would be, with two differences: it
//! keeps the launcher's environment, since it may be a wrapper (a shell, env(1)) of the real program, and its standard
//! output is taken over only at its first MPI call. What such a program starts in its turn is left alone, or a script
//! would prepare each of its commands; `UNDERSTUDY_LATE=1` prepares them nevertheless.
#![allow(unsafe_code)]

use crate::entry;
use crate::environ::{self, LATE_VARIABLE, MANAGER};
use crate::launched::{self, PMIX_RANK, Protection, is_concerned};
use crate::msg::Line;
use crate::relay::{self, Streams};
use crate::stack::on_stack;
use crate::sys::{nr, sys};
use core::arch::naked_asm;
use core::ffi::{c_char, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::{ENTRIES, RUNTIME_STACK, RUNTIME_STACK_SIZE};

/// Whether a program that does not need libmpi is prepared for loading it.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn is_expected(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    unsafe {
        is_concerned(list)
            && match environ::value(list, LATE_VARIABLE) {
                Some(_) => environ::is_on(list, LATE_VARIABLE),
                None => launched::protection(list) != Protection::None && !parent_is_launched(list),
            }
    }
}

/// Whether the parent has been started by a launcher too, so that this process is not a rank but the child of one. Guardians are launchers.
///
/// # Safety
/// `list` must be a valid environment.
unsafe fn parent_is_launched(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    let (is_guarded, launcher) = unsafe { (environ::value(list, MANAGER).is_some(), launched::launcher(list)) };
    match launcher {
        _ if is_guarded => parent_has(MANAGER),
        Some(launcher) => parent_has(launcher.rank.as_bytes()),
        None => parent_has(PMIX_RANK),
    }
}

/// Whether the parent has a variable whose name begins so.
fn parent_has(name: &[u8]) -> bool {
    const GETPPID: usize = 110;
    const READ: usize = 0;
    let mut path = Line::new();
    // SAFETY: system calls on a descriptor of our own and on buffers of the lengths given.
    unsafe {
        let _ = write!(path, "/proc/{}/environ\0", sys!(GETPPID));
        let fd = sys!(nr::OPENAT, -100isize, path.as_bytes().as_ptr(), 0o2000000, 0);
        if fd < 0 {
            return false;
        }
        let mut buffer = [0u8; 4096];
        // Number of bytes of the name that have been seen; none can be unless a variable begins.
        let (mut seen, mut begins) = (0, true);
        let found = loop {
            let got = sys!(READ, fd, buffer.as_mut_ptr(), buffer.len());
            if got <= 0 {
                break false;
            }
            for &byte in &buffer[..got as usize] {
                seen = if byte == name[seen] && (begins || seen > 0) {
                    seen + 1
                } else {
                    0
                };
                begins = byte == 0;
                if seen == name.len() {
                    break;
                }
            }
            if seen == name.len() {
                break true;
            }
        };
        sys!(nr::CLOSE, fd);
        found
    }
}

/// Where the thunks jump from the first call on. The last entry serves all of them.
static ENTER: [AtomicPtr<c_void>; ENTRIES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES];
static mut STREAMS: Option<Streams> = None;

/// The thunks come here once, and to `enter` from then on.
pub fn await_first_call(enter: &[*const c_void; ENTRIES], streams: Streams) {
    for (place, address) in ENTER.iter().zip(enter) {
        place.store(address.cast_mut(), Ordering::Release);
    }
    // SAFETY: the process has one thread.
    unsafe { STREAMS = Some(streams) };
    entry::connect(&[first_call as *const c_void; ENTRIES]);
}

/// Takes the streams over and goes on to the runtime with all argument registers as they were.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        "push rax",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "call {begin}",
        "mov rsp, rbp",
        "pop rbp",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rax",
        "jmp qword ptr [rip + {enter} + 8 * {last}]",
        begin = sym begin,
        enter = sym ENTER,
        last = const ENTRIES - 1,
    )
}

extern "C" fn begin() {
    entry::connect(&core::array::from_fn(|at| {
        ENTER[at].load(Ordering::Acquire).cast_const()
    }));
    // SAFETY: nothing else is on the runtime's stack before the first call.
    unsafe {
        on_stack(core::ptr::null_mut(), start_streams, RUNTIME_STACK + RUNTIME_STACK_SIZE);
    }
    relay::line_buffer_terminal();
}

unsafe extern "C" fn start_streams(_: *mut c_void) {
    // SAFETY: written once, before this could be called.
    if let Some(streams) = unsafe { (&raw const STREAMS).read() } {
        streams.start();
    }
}
