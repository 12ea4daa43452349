//! Programs that load the MPI library late.
//!
//! Examples are an interpreter that imports it, and an application whose solvers are plug-ins.
//!
//! The second execution must precede the program's first instruction, long before it is known
//! whether the program uses MPI. For this reason a program that the launcher itself has started is
//! prepared like an MPI program, with two differences. It keeps the launcher's environment, because
//! it may be a wrapper (a shell, env(1)) of the real program. Its standard output passes through
//! the relay only from its first MPI call on.
//!
//! Among the processes that such a program starts, an interpreter is prepared if it has no
//! interpreter among its ancestors, because a rank's children are not ranks. Other programs are not
//! prepared, because otherwise a script would prepare each of its commands. `UNDERSTUDY_LATE=1`
//! prepares them anyway.
#![allow(unsafe_code)]

use crate::entry;
use crate::environ::{self, LATE_VARIABLE, MANAGER};
use crate::launched::{self, PMIX_RANK, Protection};
use crate::link::Path;
use crate::msg::Line;
use crate::processes::{is_launched, parent_of};
use crate::relay::{self, Streams};
use crate::stack::{on_stack, with_arguments_kept};
use crate::sys::{nr, sys};
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::{ENTRIES, RUNTIME_STACK, RUNTIME_STACK_SIZE};

/// Returns true if a program that does not need libmpi is prepared for loading it.
///
/// `is_first` is the result of [`is_started_by_launcher`].
///
/// # Safety
/// `list` must meet the conditions of [`is_started_by_launcher`].
pub unsafe fn is_expected(list: *const *const c_char, is_first: bool) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match environ::value(list, LATE_VARIABLE) {
            Some(_) => environ::is_on(list, LATE_VARIABLE),
            None => {
                launched::protection(list) != Protection::None
                    && (is_first || is_first_interpreter(mark(list)))
            }
        }
    }
}

/// Returns true for a process that the launcher or a guardian has started.
///
/// Such a process is a rank, or the wrapper of one.
///
/// # Safety
/// `list` must be a valid environment of a job that this library protects, and not that of its
/// program ([`launched::is_of_program`]).
pub unsafe fn is_started_by_launcher(list: *const *const c_char) -> bool {
    // SAFETY: guaranteed by the caller; getppid(2).
    unsafe { !is_launched(sys!(nr::GETPPID), mark(list)) }
}

/// Prefixes of the names of interpreters, whose programs load the MPI library late.
const INTERPRETERS: [&[u8]; 5] = [b"python", b"pypy", b"julia", b"octave", b"R\0"];

/// Returns true if a process is an interpreter, which loads libraries that scripts name.
fn is_interpreter(process: isize) -> bool {
    let (mut link, mut path) = (Line::new(), Path::new());
    let _ = write!(link, "/proc/{process}/exe\0");
    path.read_link(CStr::from_bytes_until_nul(link.as_bytes()).unwrap_or_default());
    let path = path.as_c_str().to_bytes_with_nul();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    INTERPRETERS
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

/// Returns the variable that all processes of this job have; guardians count as launchers.
///
/// # Safety
/// `list` must be a valid environment.
unsafe fn mark(list: *const *const c_char) -> &'static [u8] {
    // SAFETY: guaranteed by the caller.
    let (is_guarded, launcher) = unsafe {
        (
            environ::value(list, MANAGER).is_some(),
            launched::launcher(list),
        )
    };
    match launcher {
        _ if is_guarded => MANAGER,
        Some(launcher) => launcher.rank.as_bytes(),
        None => PMIX_RANK,
    }
}

/// Returns true if this process is an interpreter and none of its ancestors is one.
///
/// Ancestors above the launcher do not count. An interpreter among the others would be the rank.
fn is_first_interpreter(mark: &[u8]) -> bool {
    // SAFETY: getpid(2).
    let mut process = unsafe { sys!(nr::GETPID) };
    if !is_interpreter(process) {
        return false;
    }
    loop {
        process = parent_of(process);
        if !is_launched(process, mark) {
            return true;
        }
        if is_interpreter(process) {
            return false;
        }
    }
}

/// Targets of the thunks from the first call on; the last one serves all thunks.
static ENTER: [AtomicPtr<c_void>; ENTRIES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES];
static mut STREAMS: Option<Streams> = None;

/// Makes the first call of a thunk start the streams, and later calls use `enter`.
pub fn await_first_call(enter: &[*const c_void; ENTRIES], streams: Streams) {
    for (place, address) in ENTER.iter().zip(enter) {
        place.store(address.cast_mut(), Ordering::Release);
    }
    // SAFETY: the process has one thread.
    unsafe { STREAMS = Some(streams) };
    entry::connect(&[first_call as *const c_void; ENTRIES]);
}

/// Starts the streams and jumps to the runtime with unchanged argument registers.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        with_arguments_kept!(
            "push rbp",
            "mov rbp, rsp",
            "and rsp, -16",
            "call {begin}",
            "mov rsp, rbp",
            "pop rbp",
        ),
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
    // SAFETY: the runtime's stack is empty before the first call.
    unsafe {
        on_stack(
            core::ptr::null_mut(),
            start_streams,
            RUNTIME_STACK + RUNTIME_STACK_SIZE,
        );
    }
    relay::line_buffer_terminal();
}

unsafe extern "C" fn start_streams(_: *mut c_void) {
    // SAFETY: written once, before this function can be called.
    if let Some(streams) = unsafe { (&raw const STREAMS).read() } {
        streams.start();
    }
}
