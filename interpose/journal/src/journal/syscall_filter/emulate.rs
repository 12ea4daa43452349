//! System calls whose disposition depends on their arguments.
#![allow(unsafe_code)]

use super::filter_state::{CallDisposition, FilterState, STACK_WORDS, syscall};
use super::{files, queries};
use std::ffi::{c_int, c_long};

/// Length in bytes of the kernel's `struct itimerval` and `struct itimerspec`.
const TIMER: usize = 32;

/// Commands of fcntl(2) that read, or that change only the descriptor.
const HARMLESS_COMMANDS: [c_int; 12] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_GETLK,
    libc::F_OFD_GETLK,
    libc::F_GETOWN,
    libc::F_GETPIPE_SZ,
    libc::F_GET_SEALS,
    libc::F_GETLEASE,
    F_GETSIG,
];
const F_GETSIG: c_int = 11;
/// Commands of fcntl(2) for file locks, which a replay must neither wait for nor take.
///
/// The locks belong to the worker.
const LOCK_COMMANDS: [c_int; 4] = [
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];

/// Requests of ioctl(2) that read, or that change only the descriptor.
const HARMLESS_REQUESTS: [u64; 7] = [
    libc::TCGETS,
    libc::TIOCGWINSZ,
    libc::TIOCGPGRP,
    libc::FIONREAD,
    libc::FIOCLEX,
    libc::FIONCLEX,
    libc::FS_IOC_GETFLAGS,
];

/// Options of prctl(2) that read, or that change only this process.
const HARMLESS_OPTIONS: [c_int; 12] = [
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    libc::PR_SET_VMA,
];
/// Options of prctl(2) that are visible to the parent of this child process.
const PARENT_OPTIONS: [c_int; 3] = [
    libc::PR_SET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS,
];

/// Returns the disposition of a system call with the arguments `a`.
pub fn decide(filter: &mut FilterState, number: c_long, a: &[i64; 6]) -> CallDisposition {
    let at_cwd = i64::from(libc::AT_FDCWD);
    match number {
        libc::SYS_open => files::open_file(filter, at_cwd, a[0], a[1]),
        libc::SYS_creat => {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
            files::open_file(filter, at_cwd, a[0], flags.into())
        }
        libc::SYS_openat => files::open_file(filter, a[0], a[1], a[2]),
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_preadv2 => decide_read(a[0]),
        libc::SYS_write | libc::SYS_pwrite64 => pass_for_memory_file(filter, a[0], a[2]),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            pass_for_memory_file(filter, a[0], total(a[1], a[2]))
        }
        libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_fchmod
        | libc::SYS_fchown
        | libc::SYS_flock => pass_for_memory_file(filter, a[0], 0),
        libc::SYS_mmap => decide_mmap(filter, a),
        libc::SYS_fcntl => decide_fcntl(filter, a),
        libc::SYS_ioctl if HARMLESS_REQUESTS.contains(&(a[1] as u64)) => CallDisposition::Pass,
        libc::SYS_prctl if HARMLESS_OPTIONS.contains(&(a[0] as c_int)) => CallDisposition::Pass,
        libc::SYS_prctl if PARENT_OPTIONS.contains(&(a[0] as c_int)) => {
            CallDisposition::ReturnValue(0)
        }
        libc::SYS_memfd_create => {
            // SAFETY: this is the call that the program made, with its arguments.
            let descriptor = unsafe { syscall(number, a) };
            files::register_memory_file(filter, descriptor);
            CallDisposition::ReturnValue(descriptor)
        }
        libc::SYS_rt_sigaction if a[0] == i64::from(libc::SIGSYS) => {
            exchange(&mut filter.on_sigsys, a[1], a[2]);
            CallDisposition::ReturnValue(0)
        }
        libc::SYS_rt_sigaction => CallDisposition::Pass,
        libc::SYS_rt_sigprocmask => set_mask(a),
        libc::SYS_sigaltstack => set_alternate_stack(filter, a),
        libc::SYS_setitimer => answer_timer(a[2]),
        libc::SYS_timer_settime => answer_timer(a[3]),
        // A thread number denotes a thread of the worker, not of this child process.
        libc::SYS_sched_setaffinity if a[0] != 0 => CallDisposition::ReturnValue(0),
        libc::SYS_sched_setaffinity => CallDisposition::Pass,
        libc::SYS_prlimit64 if a[2] == 0 => queries::decide(filter, number, a),
        libc::SYS_prlimit64 if a[0] == 0 => CallDisposition::Pass,
        _ => CallDisposition::EndReplay,
    }
}

/// Returns the number of bytes in a list of buffers.
fn total(list: i64, count: i64) -> i64 {
    if list == 0 {
        return 0;
    }
    // SAFETY: writev(2) makes the program responsible for a list of this length.
    let list = unsafe {
        std::slice::from_raw_parts(list as *const libc::iovec, count.clamp(0, 1024) as usize)
    };
    list.iter().map(|buffer| buffer.iov_len as i64).sum()
}

/// Passes changes of files in memory; for other files the call returns `pretended`.
fn pass_for_memory_file(filter: &FilterState, descriptor: i64, pretended: i64) -> CallDisposition {
    if files::is_memory_file(filter, descriptor) {
        CallDisposition::Pass
    } else {
        CallDisposition::ReturnValue(pretended)
    }
}

/// Disposition of a read from a descriptor.
///
/// Bytes that are read from a pipe, a socket or a terminal are lost for other readers.
fn decide_read(descriptor: i64) -> CallDisposition {
    // SAFETY: fstat(2) and ioctl_tty(2) fill the structures that are passed.
    let (kind, is_terminal) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if syscall(
            libc::SYS_fstat,
            &[descriptor, &raw mut stat as i64, 0, 0, 0, 0],
        ) < 0
        {
            return CallDisposition::Pass;
        }
        let mut terminal: libc::termios = std::mem::zeroed();
        let arguments = [
            descriptor,
            libc::TCGETS as i64,
            &raw mut terminal as i64,
            0,
            0,
            0,
        ];
        let kind = stat.st_mode & libc::S_IFMT;
        (
            kind,
            kind == libc::S_IFCHR && syscall(libc::SYS_ioctl, &arguments) == 0,
        )
    };
    match kind {
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => CallDisposition::Pass,
        libc::S_IFCHR if !is_terminal => CallDisposition::Pass,
        _ => CallDisposition::EndReplay,
    }
}

/// True if this is mmap(2) of anonymous memory.
///
/// The runtime's allocator makes such calls too, even while the filter handles another call.
pub fn is_anonymous_mmap(number: c_long, a: &[i64; 6]) -> bool {
    number == libc::SYS_mmap && a[3] as c_int & libc::MAP_ANONYMOUS != 0
}

/// Disposition of mmap(2) of a file.
///
/// Ends the replay for a shared writable mapping, unless the file is in memory: stores would change
/// the file.
fn decide_mmap(filter: &FilterState, a: &[i64; 6]) -> CallDisposition {
    let is_shared = a[3] as c_int & libc::MAP_SHARED != 0;
    // SAFETY: fcntl(2) with `F_GETFL` writes no memory.
    let mode =
        || unsafe { syscall(libc::SYS_fcntl, &[a[4], libc::F_GETFL.into(), 0, 0, 0, 0]) } as c_int
            & libc::O_ACCMODE;
    if is_shared && mode() != libc::O_RDONLY && !files::is_memory_file(filter, a[4]) {
        CallDisposition::EndReplay
    } else {
        CallDisposition::Pass
    }
}

fn decide_fcntl(filter: &FilterState, a: &[i64; 6]) -> CallDisposition {
    match a[1] as c_int {
        command if HARMLESS_COMMANDS.contains(&command) => CallDisposition::Pass,
        command if LOCK_COMMANDS.contains(&command) => CallDisposition::ReturnValue(0),
        libc::F_ADD_SEALS => CallDisposition::Pass,
        // Status flags belong to the open file description, which other processes may share.
        libc::F_SETFL => pass_for_memory_file(filter, a[0], 0),
        _ => CallDisposition::EndReplay,
    }
}

/// Stores the value at address `new`, and writes the old value to address `old`.
///
/// A null address is skipped.
fn exchange<T: Copy>(stored: &mut T, new: i64, old: i64) {
    let before = *stored;
    // SAFETY: the emulated calls make the program responsible for addresses of structures as long
    // as the kernel's.
    unsafe {
        if new != 0 {
            *stored = (new as *const T).read_unaligned();
        }
        if old != 0 {
            (old as *mut T).write_unaligned(before);
        }
    }
}

/// Executes rt_sigprocmask(2) without SIGSYS in the set.
///
/// The kernel ends a process that makes a filtered call while SIGSYS is blocked.
fn set_mask(a: &[i64; 6]) -> CallDisposition {
    let (mut arguments, mut mask) = (*a, [0u64; 1]);
    if a[1] != 0 {
        // SAFETY: rt_sigprocmask(2) makes the program responsible for a set of 8 bytes.
        mask[0] = unsafe { *(a[1] as *const u64) } & !(1 << (libc::SIGSYS - 1));
        arguments[1] = mask.as_ptr() as i64;
    }
    // SAFETY: this is the call that the program made, with another set.
    CallDisposition::ReturnValue(unsafe { syscall(libc::SYS_rt_sigprocmask, &arguments) })
}

/// Emulates sigaltstack(2).
///
/// The real alternate stack stays: after a change, signal handlers of the program that run later
/// would run on another stack.
fn set_alternate_stack(filter: &mut FilterState, a: &[i64; 6]) -> CallDisposition {
    let mut real = [0u64; STACK_WORDS];
    // SAFETY: sigaltstack(2) fills the structure, which is long enough.
    unsafe {
        syscall(
            libc::SYS_sigaltstack,
            &[0, real.as_mut_ptr() as i64, 0, 0, 0, 0],
        )
    };
    exchange(filter.stack.get_or_insert(real), a[0], a[1]);
    CallDisposition::ReturnValue(0)
}

/// Emulates a call that arms a timer; the timer never expires.
///
/// Writes zeros, the value of a disarmed timer, to address `old`.
fn answer_timer(old: i64) -> CallDisposition {
    exchange(&mut [0u8; TIMER], 0, old);
    CallDisposition::ReturnValue(0)
}
