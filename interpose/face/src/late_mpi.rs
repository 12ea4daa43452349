//! Programs that load the MPI library late, when they are already running.
//!
//! Examples are an interpreter that imports an MPI module, and an application whose solvers are
//! plug-ins.
//!
//! The second execution must precede the program's first instruction, at which time nothing shows
//! that the program will use MPI. For this reason every program that the launcher itself has
//! started is prepared like an MPI program, with two differences. The program keeps the launcher's
//! environment, because the program may be a wrapper (a shell, env(1)) of the real program. The
//! program's standard output passes through the relay only from the first MPI call on.
//!
//! Only interpreters are prepared among the programs that such a wrapper starts: otherwise a shell
//! script would prepare each of its commands. An interpreter with an interpreter among its
//! ancestors is not prepared either, because the ancestor may be the rank, and children of a rank
//! are not ranks. `UNDERSTUDY_LATE=1` prepares all programs, any other value none.
#![allow(unsafe_code)]

use crate::entry;
use crate::environ::{self, LATE_VARIABLE, MANAGER};
use crate::launched::{self, PMIX_RANK, Protection};
use crate::link::Path;
use crate::messages::Line;
use crate::processes::{is_launched, parent_of};
use crate::relay::{self, StreamFunctions};
use crate::stack::{on_stack, with_arguments_kept};
use crate::sys::{nr, sys};
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::{ENTRIES, RUNTIME_STACK, RUNTIME_STACK_SIZE};

/// Returns true if a program that does not need libmpi is prepared for loading libmpi.
///
/// `is_first` is the result of [`is_started_by_launcher`].
///
/// # Safety
/// `list` must meet the conditions of [`is_started_by_launcher`].
pub unsafe fn is_expected(list: *const *const c_char, is_first: bool) -> bool {
    // SAFETY: the caller guarantees that `list` meets the conditions of `is_started_by_launcher`.
    unsafe {
        match environ::value(list, LATE_VARIABLE) {
            Some(_) => environ::is_on(list, LATE_VARIABLE),
            None => {
                launched::protection(list) != Protection::None
                    && (is_first || is_first_interpreter(job_variable(list)))
            }
        }
    }
}

/// Returns true for a process that the launcher or a guardian has started.
///
/// Such a process is a rank, or the wrapper of a rank.
///
/// # Safety
/// `list` must be a valid environment of a job that this library protects, and not that of its
/// program ([`launched::is_of_program`]).
pub unsafe fn is_started_by_launcher(list: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `list` is a valid environment; getppid(2).
    unsafe { !is_launched(sys!(nr::GETPPID), job_variable(list)) }
}

/// Prefixes of the names of interpreters, whose programs load the MPI library late.
///
/// A prefix with a NUL is a whole name.
const INTERPRETERS: [&[u8]; 5] = [b"python", b"pypy", b"julia", b"octave", b"R\0"];

/// Returns true if a process executes an interpreter, by the name of its executable.
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

/// Returns the name of a variable that this process's launcher has set for its processes.
///
/// A guardian counts as the launcher of its child.
///
/// # Safety
/// `list` must be a valid environment.
unsafe fn job_variable(list: *const *const c_char) -> &'static [u8] {
    // SAFETY: the caller guarantees that `list` is a valid environment.
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

/// Returns true if this process is an interpreter and no ancestor is an interpreter.
///
/// The search ends at the launcher.
fn is_first_interpreter(job_variable: &[u8]) -> bool {
    // SAFETY: getpid(2) has no preconditions.
    let mut process = unsafe { sys!(nr::GETPID) };
    if !is_interpreter(process) {
        return false;
    }
    loop {
        process = parent_of(process);
        if !is_launched(process, job_variable) {
            return true;
        }
        if is_interpreter(process) {
            return false;
        }
    }
}

/// The runtime's entries, to which the thunks jump from the second call on.
///
/// The last entry accepts any number of arguments.
static RUNTIME_ENTRIES: [AtomicPtr<c_void>; ENTRIES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES];
/// Functions that make the relay forward standard output and error.
static mut STREAMS: Option<StreamFunctions> = None;

/// Makes the first MPI call start the relay; later calls jump to `enter` directly.
pub fn await_first_call(enter: &[*const c_void; ENTRIES], streams: StreamFunctions) {
    for (entry, address) in RUNTIME_ENTRIES.iter().zip(enter) {
        entry.store(address.cast_mut(), Ordering::Release);
    }
    // SAFETY: the program has not started, so no other thread accesses the variable.
    unsafe { STREAMS = Some(streams) };
    entry::connect(&[first_call as *const c_void; ENTRIES]);
}

/// Starts the relay, then jumps to the runtime with unchanged argument registers.
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
        begin = sym start_after_first_call,
        enter = sym RUNTIME_ENTRIES,
        last = const ENTRIES - 1,
    )
}

extern "C" fn start_after_first_call() {
    entry::connect(&core::array::from_fn(|index| {
        RUNTIME_ENTRIES[index].load(Ordering::Acquire).cast_const()
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
    // SAFETY: `await_first_call` writes the variable once, before this function can be called.
    if let Some(streams) = unsafe { (&raw const STREAMS).read() } {
        streams.start();
    }
}
