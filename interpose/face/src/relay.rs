//! Starts the relay, the process that writes this rank's standard output and error.
//!
//! Output that a rank has written since the last cut must not be written a second time after a
//! recovery. The number of these bytes must be available even if the rank was killed. Standard
//! output and error therefore pass through a *relay* (`ckptd relay`), a process that counts their
//! bytes in a ledger. The relay is a grandchild of the rank, so the program's wait(2) never returns
//! the relay. The relay exits when the rank has closed both streams.
#![allow(unsafe_code)]

use crate::closing::RESERVED_DESCRIPTORS;
use crate::link::{Path, own_path};
use crate::messages::print;
use crate::sys::{self, nr, sys};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use understudy_abi::RUNTIME_FD_BASE;
use understudy_catalogue::message;

/// True if standard output was a terminal before it passed through the relay.
static STDOUT_WAS_TERMINAL: AtomicBool = AtomicBool::new(false);

/// Copies of the original descriptors 1 and 2, which pipes to the relay have replaced.
///
/// The value is -1 for a descriptor that does not pass through the relay.
static ORIGINALS: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
/// Inodes of the pipes to the relay.
static PIPES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The runtime's function that waits until the relay has written all output.
static FLUSH: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

const F_DUPFD_CLOEXEC: usize = 1030;
const S_IFMT: u32 = 0o170000;
const S_IFREG: u32 = 0o100000;

fn is_terminal(fd: c_int) -> bool {
    const TCGETS: usize = 0x5401;
    const IOCTL: usize = 16;
    let mut settings = [0u8; 64];
    // SAFETY: ioctl_tty(2) writes at most 60 bytes.
    unsafe { sys!(IOCTL, fd, TCGETS, settings.as_mut_ptr()) == 0 }
}

/// Returns type and inode of a descriptor's file; zeros if the descriptor is closed.
fn file_type_and_inode(fd: c_int) -> (u32, u64) {
    const FSTAT: usize = 5;
    let mut stat = [0u64; 18];
    // SAFETY: fstat(2) writes 144 bytes; st_ino is at offset 8, and st_mode is the 32-bit word at
    // offset 24.
    match unsafe { sys!(FSTAT, fd, stat.as_mut_ptr()) } {
        0 => (stat[3] as u32 & S_IFMT, stat[1]),
        _ => (0, 0),
    }
}

/// Returns true if a descriptor is open and is not a regular file.
///
/// Only pipes, terminals, sockets and similar files need a relay; output to a regular file is
/// undone by the file's size and offset.
fn is_stream(fd: c_int) -> bool {
    !matches!(file_type_and_inode(fd).0, 0 | S_IFREG)
}

/// Copies of standard output and error that do not pass through the relay.
#[derive(Clone, Copy)]
pub struct StreamCopies {
    pub output: c_int,
    pub errors: c_int,
    /// Standard output of the MPI library's namespace; at first a copy of standard error.
    ///
    /// The runtime replaces the copy if the library must write to standard output.
    pub library_output: c_int,
}

impl StreamCopies {
    /// Copies the current descriptors; the copy of a closed one is negative.
    pub fn make() -> StreamCopies {
        let copy = |fd: c_int| {
            // SAFETY: fcntl(2) creates a descriptor, and changes no other.
            let copy = unsafe { sys!(nr::FCNTL, fd, F_DUPFD_CLOEXEC, RUNTIME_FD_BASE) as c_int };
            RESERVED_DESCRIPTORS.add(copy);
            copy
        };
        StreamCopies {
            output: copy(1),
            errors: copy(2),
            library_output: copy(2),
        }
    }
}

/// Starts a relay for descriptors 1 and 2, which creates the file `ledger`.
fn start(ledger: *const c_char, directory: &[u8]) -> Result<(), c_int> {
    STDOUT_WAS_TERMINAL.store(is_terminal(1), Ordering::Relaxed);
    let mut relay = Path::new();
    relay.push(directory).push(b"/ckptd");
    spawn(&relay, ledger)
}

/// Converts the result of a system call; the error is an errno.
fn check(result: isize) -> Result<c_int, c_int> {
    if result < 0 {
        Err(-result as c_int)
    } else {
        Ok(result as c_int)
    }
}

/// Creates the pipes, and starts the relay with their reading ends.
///
/// The writing ends replace those of descriptors 1 and 2 that need a relay ([`is_stream`]).
fn spawn(relay: &Path, ledger: *const c_char) -> Result<(), c_int> {
    const ENOENT: c_int = 2;
    if !relay.is_file() {
        return Err(ENOENT);
    }
    let streams = [is_stream(1), is_stream(2)];
    let mut pipes = [[-1i32; 2]; 2];
    // SAFETY: the system calls concern descriptors that this function has created. The child makes
    // only system calls until it executes another program.
    unsafe {
        for (pipe, _) in pipes
            .iter_mut()
            .zip(streams)
            .filter(|(_, is_stream)| *is_stream)
        {
            check(sys!(nr::PIPE2, pipe.as_mut_ptr(), 0))?;
            for end in pipe.iter_mut() {
                let high = check(sys!(nr::FCNTL, *end, F_DUPFD_CLOEXEC, RUNTIME_FD_BASE))?;
                sys!(nr::CLOSE, *end);
                *end = high;
            }
        }
        match check(sys!(nr::FORK))? {
            0 => detach(relay, ledger, &pipes),
            child => {
                let mut status = 0i32;
                sys!(nr::WAIT4, child, &raw mut status, 0, 0);
            }
        }
        for (fd, pipe) in pipes.iter().enumerate().filter(|(_, pipe)| pipe[1] >= 0) {
            let original = sys!(nr::FCNTL, fd + 1, F_DUPFD_CLOEXEC, RUNTIME_FD_BASE);
            ORIGINALS[fd].store(original as i32, Ordering::Relaxed);
            PIPES[fd].store(file_type_and_inode(pipe[1]).1, Ordering::Relaxed);
            check(sys!(nr::DUP2, pipe[1], fd + 1))?;
            sys!(nr::CLOSE, pipe[0]);
            sys!(nr::CLOSE, pipe[1]);
        }
    }
    Ok(())
}

/// Runs in the child: forks a grandchild in a new session, which becomes the relay.
///
/// # Safety
/// The calling process must be a forked child.
unsafe fn detach(relay: &Path, ledger: *const c_char, pipes: &[[i32; 2]; 2]) -> ! {
    let argv = [
        c"ckptd-relay".as_ptr(),
        c"relay".as_ptr(),
        c"--ledger".as_ptr(),
        ledger,
        core::ptr::null(),
    ];
    let envp = [core::ptr::null::<c_char>()];
    // SAFETY: system calls on descriptors of this process; execve(2) with valid arrays.
    unsafe {
        sys!(nr::SETSID);
        if sys!(nr::FORK) != 0 {
            sys::exit(0);
        }
        let null = sys!(nr::OPENAT, -100isize, c"/dev/null".as_ptr(), 0, 0);
        sys!(nr::DUP2, null, 0);
        sys!(nr::CLOSE, 3);
        sys!(nr::CLOSE, 4);
        for (index, pipe) in pipes.iter().enumerate().filter(|(_, pipe)| pipe[0] >= 0) {
            sys!(nr::DUP2, pipe[0], index + 3);
        }
        sys!(nr::CLOSE_RANGE, 5, u32::MAX, 0);
        sys!(nr::EXECVE, relay.as_ptr(), argv.as_ptr(), envp.as_ptr());
    }
    sys::exit(127)
}

/// The runtime's functions for the streams of a protected program.
#[derive(Clone, Copy)]
pub struct StreamFunctions {
    ledger_path: LedgerPath,
    set_ledger: SetLedger,
    flush: *mut c_void,
}

/// Function of the runtime that returns the path for the ledger.
type LedgerPath = extern "C" fn() -> *const c_char;

/// Function of the runtime that is called with the ledger's path after the relay's start.
type SetLedger = unsafe extern "C" fn(*const c_char);

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

impl StreamFunctions {
    /// Looks up the runtime's functions.
    ///
    /// # Safety
    /// `runtime` must be the runtime's handle.
    pub unsafe fn of(runtime: *mut c_void) -> Option<StreamFunctions> {
        // SAFETY: dlsym(3); the runtime exports functions of these names with these types.
        unsafe {
            let path = dlsym(runtime, c"understudy_runtime_ledger".as_ptr());
            let set = dlsym(runtime, c"understudy_runtime_streams".as_ptr());
            let flush = dlsym(runtime, c"understudy_runtime_flush".as_ptr());
            (!path.is_null() && !set.is_null()).then(|| StreamFunctions {
                flush,
                ledger_path: core::mem::transmute::<*mut c_void, LedgerPath>(path),
                set_ledger: core::mem::transmute::<*mut c_void, SetLedger>(set),
            })
        }
    }

    /// Starts the relay and notifies the runtime; runs on the runtime's stack.
    pub fn start(&self) {
        let ledger = (self.ledger_path)();
        match start(ledger, Path::directory(own_path())) {
            // SAFETY: the runtime has exported this function, which accepts the runtime's string.
            Ok(()) => unsafe {
                (self.set_ledger)(ledger);
                FLUSH.store(self.flush, Ordering::Release);
            },
            Err(error) => print(&message::relay_not_started(error)),
        }
    }
}

/// Pipes to the relay, while descriptors 1 and 2 are the original descriptors again.
///
/// The value is -1 for a descriptor that does not pass through the relay.
pub struct Detached([c_int; 2]);

/// Restores the original standard output and error before another program is executed.
///
/// The other program starts a relay of its own. This function first waits until this program's
/// relay has written all output.
pub fn restore_originals() -> Detached {
    let flush = FLUSH.load(Ordering::Acquire);
    if !flush.is_null() {
        // SAFETY: `start` has stored the runtime's function of this type.
        unsafe {
            let flush: extern "C" fn() = core::mem::transmute(flush);
            flush();
        }
    }
    Detached([0, 1].map(|index| {
        let (fd, original) = (index as c_int + 1, ORIGINALS[index].load(Ordering::Relaxed));
        // The program may have redirected the descriptor since the relay's start.
        if original < 0 || file_type_and_inode(fd).1 != PIPES[index].load(Ordering::Relaxed) {
            return -1;
        }
        // SAFETY: fcntl(2), dup2(2) on descriptors of this process.
        unsafe {
            let pipe = sys!(nr::FCNTL, fd, F_DUPFD_CLOEXEC, RUNTIME_FD_BASE);
            sys!(nr::DUP2, original, fd);
            pipe as c_int
        }
    }))
}

impl Detached {
    /// Reconnects the relay after the execution has failed.
    pub fn attach(self) {
        for (index, pipe) in self
            .0
            .into_iter()
            .enumerate()
            .filter(|(_, pipe)| *pipe >= 0)
        {
            // SAFETY: dup2(2), close(2) on descriptors of this process.
            unsafe {
                sys!(nr::DUP2, pipe, index + 1);
                sys!(nr::CLOSE, pipe);
            }
        }
    }
}

/// Makes libc's standard output line-buffered if it was a terminal.
///
/// The output now passes through a pipe, for which libc would use a block buffer. The caller must
/// be on the program's stack.
pub fn line_buffer_terminal() {
    if !STDOUT_WAS_TERMINAL.load(Ordering::Relaxed) {
        return;
    }
    const IOLBF: c_int = 1;
    // SAFETY: `stdout` is a variable of libc, which contains a valid stream for setvbuf(3).
    unsafe {
        let stdout = dlsym(core::ptr::null_mut(), c"stdout".as_ptr()).cast::<*mut c_void>();
        if !stdout.is_null() {
            setvbuf(stdout.read(), core::ptr::null_mut(), IOLBF, 0);
        }
    }
}
