//! System calls whose disposition depends on their arguments.
#![allow(unsafe_code)]

use super::filter_state::{Fate, Hold, STACK, make};
use super::{files, inquire};
use std::ffi::{c_int, c_long};

/// Length in bytes of the kernel's `struct itimerval` and `struct itimerspec`.
const TIMER: usize = 32;

/// Commands of fcntl(2) that read, or that change only the descriptor.
const OWN_COMMANDS: [c_int; 12] = [
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
/// Commands for file locks, which belong to the worker.
///
/// A replay must neither wait for nor take locks.
const LOCKS: [c_int; 4] = [
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];

/// Requests of ioctl(2) that read, or that change only the descriptor.
const OWN_REQUESTS: [u64; 7] = [
    libc::TCGETS,
    libc::TIOCGWINSZ,
    libc::TIOCGPGRP,
    libc::FIONREAD,
    libc::FIOCLEX,
    libc::FIONCLEX,
    libc::FS_IOC_GETFLAGS,
];

/// Options of prctl(2) that read, or that change only this process.
const OWN_OPTIONS: [c_int; 12] = [
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
const OTHER_OPTIONS: [c_int; 3] = [
    libc::PR_SET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS,
];

/// Returns the disposition of a call of this kind.
pub fn fate(hold: &mut Hold, number: c_long, a: &[i64; 6]) -> Fate {
    let at_cwd = i64::from(libc::AT_FDCWD);
    match number {
        libc::SYS_open => files::opened(hold, at_cwd, a[0], a[1]),
        libc::SYS_creat => {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
            files::opened(hold, at_cwd, a[0], flags.into())
        }
        libc::SYS_openat => files::opened(hold, a[0], a[1], a[2]),
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_preadv2 => read(a[0]),
        libc::SYS_write | libc::SYS_pwrite64 => on_own(hold, a[0], a[2]),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            on_own(hold, a[0], total(a[1], a[2]))
        }
        libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_fchmod
        | libc::SYS_fchown
        | libc::SYS_flock => on_own(hold, a[0], 0),
        libc::SYS_mmap => mapped(hold, a),
        libc::SYS_fcntl => control(hold, a),
        libc::SYS_ioctl if OWN_REQUESTS.contains(&(a[1] as u64)) => Fate::Pass,
        libc::SYS_prctl if OWN_OPTIONS.contains(&(a[0] as c_int)) => Fate::Pass,
        libc::SYS_prctl if OTHER_OPTIONS.contains(&(a[0] as c_int)) => Fate::Answer(0),
        libc::SYS_memfd_create => {
            // SAFETY: this is the call that the program made, with its arguments.
            let descriptor = unsafe { make(number, a) };
            files::adopt(hold, descriptor);
            Fate::Answer(descriptor)
        }
        libc::SYS_rt_sigaction if a[0] == i64::from(libc::SIGSYS) => {
            exchange(&mut hold.on_sigsys, a[1], a[2]);
            Fate::Answer(0)
        }
        libc::SYS_rt_sigaction => Fate::Pass,
        libc::SYS_rt_sigprocmask => masked(a),
        libc::SYS_sigaltstack => stack(hold, a),
        libc::SYS_setitimer => unarmed(a[2]),
        libc::SYS_timer_settime => unarmed(a[3]),
        // The thread number denotes the worker, not this child process.
        libc::SYS_sched_setaffinity if a[0] != 0 => Fate::Answer(0),
        libc::SYS_sched_setaffinity => Fate::Pass,
        libc::SYS_prlimit64 if a[2] == 0 => inquire::fate(hold, number, a),
        libc::SYS_prlimit64 if a[0] == 0 => Fate::Pass,
        _ => Fate::GiveUp,
    }
}

/// Returns the number of bytes in a list of buffers.
fn total(list: i64, count: i64) -> i64 {
    if list == 0 {
        return 0;
    }
    // SAFETY: the program passed this list and its length.
    let list = unsafe {
        std::slice::from_raw_parts(list as *const libc::iovec, count.clamp(0, 1024) as usize)
    };
    list.iter().map(|buffer| buffer.iov_len as i64).sum()
}

fn on_own(hold: &Hold, descriptor: i64, pretended: i64) -> Fate {
    if files::is_own(hold, descriptor) {
        Fate::Pass
    } else {
        Fate::Answer(pretended)
    }
}

/// Disposition of a read from a descriptor.
///
/// Bytes that are read from a pipe, a socket or a terminal are lost for other readers.
fn read(descriptor: i64) -> Fate {
    // SAFETY: fstat(2) and ioctl_tty(2) fill the structures that are passed.
    let (kind, is_terminal) = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        if make(
            libc::SYS_fstat,
            &[descriptor, &raw mut about as i64, 0, 0, 0, 0],
        ) < 0
        {
            return Fate::Pass;
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
        let kind = about.st_mode & libc::S_IFMT;
        (
            kind,
            kind == libc::S_IFCHR && make(libc::SYS_ioctl, &arguments) == 0,
        )
    };
    match kind {
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Fate::Pass,
        libc::S_IFCHR if !is_terminal => Fate::Pass,
        _ => Fate::GiveUp,
    }
}

/// True if this is mmap(2) of anonymous memory.
///
/// This library also allocates such memory, even inside of its allocator while it handles another
/// call.
pub fn is_memory(number: c_long, a: &[i64; 6]) -> bool {
    number == libc::SYS_mmap && a[3] as c_int & libc::MAP_ANONYMOUS != 0
}

/// Disposition of mmap(2) of a file.
///
/// A shared writable mapping of a file that is not in memory would change the file.
fn mapped(hold: &Hold, a: &[i64; 6]) -> Fate {
    let is_shared = a[3] as c_int & libc::MAP_SHARED != 0;
    // SAFETY: fcntl(2) with `F_GETFL` writes no memory.
    let mode =
        || unsafe { make(libc::SYS_fcntl, &[a[4], libc::F_GETFL.into(), 0, 0, 0, 0]) } as c_int
            & libc::O_ACCMODE;
    if is_shared && mode() != libc::O_RDONLY && !files::is_own(hold, a[4]) {
        Fate::GiveUp
    } else {
        Fate::Pass
    }
}

fn control(hold: &Hold, a: &[i64; 6]) -> Fate {
    match a[1] as c_int {
        command if OWN_COMMANDS.contains(&command) => Fate::Pass,
        command if LOCKS.contains(&command) => Fate::Answer(0),
        libc::F_ADD_SEALS => Fate::Pass,
        // Status flags belong to the open file description, which other processes may share.
        libc::F_SETFL => on_own(hold, a[0], 0),
        _ => Fate::GiveUp,
    }
}

/// Stores the value at `now` in `kept`, and writes the old value to `before`.
///
/// A null address is skipped.
fn exchange<T: Copy>(kept: &mut T, now: i64, before: i64) {
    let old = *kept;
    // SAFETY: the program passed addresses of structures as long as the kernel's.
    unsafe {
        if now != 0 {
            *kept = (now as *const T).read_unaligned();
        }
        if before != 0 {
            (before as *mut T).write_unaligned(old);
        }
    }
}

/// Executes rt_sigprocmask(2) without SIGSYS in the set.
///
/// A filtered call would end the process while SIGSYS is blocked.
fn masked(a: &[i64; 6]) -> Fate {
    let (mut arguments, mut mask) = (*a, [0u64; 1]);
    if a[1] != 0 {
        // SAFETY: the program passed a set of 8 bytes, as the kernel reads it.
        mask[0] = unsafe { *(a[1] as *const u64) } & !(1 << (libc::SIGSYS - 1));
        arguments[1] = mask.as_ptr() as i64;
    }
    // SAFETY: this is the call that the program made, with another set.
    Fate::Answer(unsafe { make(libc::SYS_rt_sigprocmask, &arguments) })
}

/// Emulates sigaltstack(2).
///
/// The real alternate stack is not changed, as later signal handlers of the program would run on
/// another stack.
fn stack(hold: &mut Hold, a: &[i64; 6]) -> Fate {
    let mut real = [0u64; STACK];
    // SAFETY: sigaltstack(2) fills the structure, which is long enough.
    unsafe {
        make(
            libc::SYS_sigaltstack,
            &[0, real.as_mut_ptr() as i64, 0, 0, 0, 0],
        )
    };
    exchange(hold.stack.get_or_insert(real), a[0], a[1]);
    Fate::Answer(0)
}

/// Emulates a call that arms a timer.
///
/// The old value is that of a timer that was not armed. The timer never expires.
fn unarmed(before: i64) -> Fate {
    exchange(&mut [0u8; TIMER], 0, before);
    Fate::Answer(0)
}
