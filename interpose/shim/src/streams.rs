//! Standard output and error of the MPI side, which bypass the relay.
//!
//! The relay counts the bytes that a rank writes to descriptors 1 and 2. After a rollback, the
//! relay drops as many bytes as it has forwarded since the checkpoint. Output of the MPI library
//! must not be counted, because this output does not repeat exactly: for example, a warning that
//! MPI_Init prints is printed again in a replacement. The functions below therefore replace
//! descriptors 1 and 2 by the ones passed to [`redirect_streams`], on which `stdout` and `stderr`
//! of this libc are also opened.
#![allow(unsafe_code)]

use crate::descriptor_table::begin_lift;
use crate::descriptors::{self, F_DUPFD, F_DUPFD_CLOEXEC, record_descriptor};
use crate::threads::libc_function;
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicUsize};

const STDOUT: c_int = 1;
const STDERR: c_int = 2;
/// Buffering mode of setvbuf(3) (`_IOLBF`).
const LINE_BUFFERED: c_int = 1;
/// Buffering mode of setvbuf(3) (`_IONBF`).
const UNBUFFERED: c_int = 2;
/// Size of glibc's buffer for a stream that is a pipe.
const BUFFER_SIZE: usize = 4096;

/// Descriptor used in place of 1.
static OUTPUT: AtomicI32 = AtomicI32::new(STDOUT);
/// Descriptor used in place of 2.
static ERRORS: AtomicI32 = AtomicI32::new(STDERR);
/// Process that has called [`redirect_streams`].
///
/// A forked child's calls of dup2(2) to descriptor 1 or 2 are not redirected: the child prepares
/// these descriptors for the program that it executes.
static REDIRECTING_PROCESS: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" {
    static mut stdout: *mut c_void;
    static mut stderr: *mut c_void;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
    fn getpid() -> c_int;
}

/// Returns the descriptor that this namespace uses in place of `fd`.
pub fn redirected_descriptor(fd: c_int) -> c_int {
    match fd {
        STDOUT => OUTPUT.load(Relaxed),
        STDERR => ERRORS.load(Relaxed),
        _ => fd,
    }
}

/// Replaces descriptors 1 and 2 by `output` and `errors`, if different.
///
/// # Safety
/// No thread of this namespace may use `stdout` or `stderr`.
pub unsafe fn redirect_streams(output: c_int, errors: c_int) {
    for (address, name) in REAL.iter().zip(NAMES) {
        libc_function(address, name);
    }
    if [output, errors] == [STDOUT, STDERR] {
        return;
    }
    OUTPUT.store(output, Relaxed);
    ERRORS.store(errors, Relaxed);
    // SAFETY: the caller guarantees that no thread uses this libc's `stdout` or `stderr`. fdopen(3)
    // has this type, and returns null for a closed descriptor.
    unsafe {
        REDIRECTING_PROCESS.store(getpid(), Relaxed);
        let open: unsafe extern "C" fn(c_int, *const c_char) -> *mut c_void =
            core::mem::transmute(REAL[FDOPEN].load(Relaxed));
        let streams = [
            (&raw mut stdout, output, LINE_BUFFERED),
            (&raw mut stderr, errors, UNBUFFERED),
        ];
        for (variable, fd, mode) in streams {
            let stream = open(fd, c"w".as_ptr());
            if !stream.is_null() {
                setvbuf(stream, null_mut(), mode, BUFFER_SIZE);
                variable.write(stream);
            }
        }
    }
}

/// Defines functions of libc whose first argument is a descriptor that is redirected.
macro_rules! with_redirected_descriptor {
    ($count:literal: $($name:ident = $index:literal;)*) => {
        static REAL: [AtomicUsize; $count] = [const { AtomicUsize::new(0) }; $count];
        const NAMES: [&CStr; $count] = [$(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!(),
            }
        ),*];
        $(
            /// libc's function of this name, called with this namespace's descriptor.
            ///
            /// # Safety
            /// The requirements of libc's function apply.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "cmp edi, 1",
                    "jne 2f",
                    "mov edi, dword ptr [rip + {output}]",
                    "jmp 3f",
                    "2:",
                    "cmp edi, 2",
                    "jne 3f",
                    "mov edi, dword ptr [rip + {errors}]",
                    "3:",
                    "jmp qword ptr [rip + {real} + 8 * {index}]",
                    output = sym OUTPUT,
                    errors = sym ERRORS,
                    real = sym REAL,
                    index = const $index,
                )
            }
        )*
    };
}

const FDOPEN: usize = 0;

with_redirected_descriptor! {
    11:
    fdopen = 0;
    dprintf = 1;
    vdprintf = 2;
    __dprintf_chk = 3;
    __vdprintf_chk = 4;
    pwrite = 5;
    pwrite64 = 6;
    pwritev = 7;
    pwritev64 = 8;
    sendfile = 9;
    sendfile64 = 10;
}

/// Defines fcntl(2) and its variants.
///
/// The System V ABI passes the variadic last argument in a register.
macro_rules! control {
    ($($name:ident)*) => {$(
        /// fcntl(2) with this namespace's descriptor; records a duplicate.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: usize) -> c_int {
            let fd = redirected_descriptor(fd);
            // SAFETY: the caller meets the requirements of libc's function.
            let result = unsafe { descriptors::fcntl(fd, command, argument) };
            if matches!(command, F_DUPFD | F_DUPFD_CLOEXEC) {
                record_descriptor(result);
            }
            result
        }
    )*};
}

control! { fcntl fcntl64 }

/// dup(2); lifts the duplicate.
///
/// # Safety
/// The requirements of dup(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_int) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"dup"));
        let _guard = begin_lift();
        descriptors::lift(real(redirected_descriptor(fd)))
    }
}

/// dup2(2), with descriptors 1 and 2 redirected.
///
/// # Safety
/// The requirements of dup2(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_int, c_int) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"dup2"));
        real(redirected_descriptor(old), new_descriptor(new))
    }
}

/// dup3(2), with descriptors 1 and 2 redirected.
///
/// # Safety
/// The requirements of dup3(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_int, c_int, c_int) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"dup3"));
        real(redirected_descriptor(old), new_descriptor(new), flags)
    }
}

/// Returns the descriptor to which dup2(2) and dup3(2) copy.
///
/// A child's descriptors are not redirected, because the program that it executes writes to 1 and
/// 2.
fn new_descriptor(fd: c_int) -> c_int {
    // SAFETY: getpid(2) has no preconditions.
    match unsafe { getpid() } == REDIRECTING_PROCESS.load(Relaxed) {
        true => redirected_descriptor(fd),
        false => fd,
    }
}
