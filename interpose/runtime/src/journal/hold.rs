//! Holds back what a replay would do to the outside world: syscall user dispatch (kernel documentation,
//! `admin-guide/syscall-user-dispatch`; Linux 5.11).
//!
//! Every system call that is made outside of the zone raises SIGSYS, those inside of the program's libc included. Its
//! handler lets harmless ones pass, gives a file that is opened for writing an empty one in memory, says that other
//! changes have been made although they have not, and ends the replay at what cannot be pretended. The files opened here
//! are replaced when the program's state is loaded.
#![allow(unsafe_code)]

use super::replay;
use crate::cell::Main;
use std::arch::naked_asm;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_long, c_void};
use std::io;
use understudy_abi::{STUB_PAGE, ZONE_END, ZONE_START};

const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const DISPATCH_OFF: libc::c_ulong = 0;
const DISPATCH_ON: libc::c_ulong = 1;
/// `SYSCALL_DISPATCH_FILTER_BLOCK`: dispatch whatever comes from outside of the given range.
static SELECTOR: u8 = 1;
const PAGE: usize = 4096;

/// Descriptors of files in memory, and those by the paths they were opened under.
#[derive(Default)]
struct Files {
    by_path: HashMap<Vec<u8>, c_int>,
    own: Vec<c_int>,
}

static FILES: Main<Option<Files>> = Main::new(None);

/// What becomes of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is made.
    Pass,
    /// It is answered.
    Answer(i64),
    /// The replay ends.
    GiveUp,
}

/// From here on, system calls of the user side are looked at.
pub fn begin() -> io::Result<()> {
    FILES.get().get_or_insert_default();
    // SAFETY: a handler of the kernel's type; it may be entered while it runs, and by system calls of the stub page even
    // inside of this library's allocator, and then does not allocate.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = trapped as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGSYS);
        if libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) != 0
            || libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) != 0
        {
            return Err(io::Error::last_os_error());
        }
        dispatch(
            DISPATCH_ON,
            ZONE_START as u64,
            (ZONE_END - ZONE_START) as u64,
            &raw const SELECTOR,
        )
    }
}

/// Takes [`begin`] back.
pub fn end() -> io::Result<()> {
    // SAFETY: prctl(2).
    unsafe { dispatch(DISPATCH_OFF, 0, 0, std::ptr::null()) }
}

unsafe fn dispatch(mode: libc::c_ulong, from: u64, length: u64, selector: *const u8) -> io::Result<()> {
    // SAFETY: handed on to the caller.
    match unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, from, length, selector) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a system call from here, that is, from inside of the zone.
unsafe fn make(number: i64, arguments: &[i64; 6]) -> i64 {
    let result: i64;
    // SAFETY: handed on to the caller.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// rt_sigreturn(2) from inside of the zone, with the program's stack.
#[unsafe(naked)]
unsafe extern "C" fn return_from_signal() {
    naked_asm!("mov eax, 15", "syscall", "ud2")
}

extern "C" fn trapped(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over a context that belongs to this handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let number = registers[libc::REG_RAX as usize];
    let order = [
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RDX,
        libc::REG_R10,
        libc::REG_R8,
        libc::REG_R9,
    ];
    let mut arguments = order.map(|register| registers[register as usize]);
    let from = registers[libc::REG_RIP as usize] as usize;
    if (STUB_PAGE..STUB_PAGE + PAGE).contains(&from) {
        // SAFETY: the call that the program, or this library's libc, has made.
        registers[libc::REG_RAX as usize] = unsafe { make(number, &arguments) };
        return;
    }
    if number == libc::SYS_rt_sigreturn {
        registers[libc::REG_RIP as usize] = return_from_signal as *const () as i64;
        return;
    }
    let mut mask = [0u64; 1];
    if number == libc::SYS_rt_sigprocmask && arguments[1] != 0 {
        // A trapped call while SIGSYS is blocked would end the process.
        // SAFETY: a set of the program, 8 bytes as the kernel reads it.
        mask[0] = unsafe { *(arguments[1] as *const u64) } & !(1 << (libc::SIGSYS - 1));
        arguments[1] = mask.as_ptr() as i64;
    }
    registers[libc::REG_RAX as usize] = match fate(number, &arguments) {
        // SAFETY: the call that the program has made.
        Fate::Pass => unsafe { make(number, &arguments) },
        Fate::Answer(value) => value,
        Fate::GiveUp => replay::leave_for(number as u64),
    };
}

const ENOENT: i64 = -(libc::ENOENT as i64);

fn fate(number: c_long, a: &[i64; 6]) -> Fate {
    match number {
        libc::SYS_open => opened(libc::AT_FDCWD as i64, a[0], a[1]),
        libc::SYS_creat => opened(libc::AT_FDCWD as i64, a[0], i64::from(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)),
        libc::SYS_openat => opened(a[0], a[1], a[2]),
        libc::SYS_write | libc::SYS_pwrite64 => on_own(a[0], a[2]),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => on_own(a[0], total(a[1], a[2])),
        libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_fchmod
        | libc::SYS_fchown | libc::SYS_flock => on_own(a[0], 0),
        libc::SYS_close => {
            forget(a[0] as c_int);
            Fate::Pass
        }
        libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2
        | libc::SYS_mkdir | libc::SYS_mkdirat | libc::SYS_rmdir | libc::SYS_link | libc::SYS_linkat
        | libc::SYS_symlink | libc::SYS_symlinkat | libc::SYS_chmod | libc::SYS_fchmodat | libc::SYS_chown
        | libc::SYS_lchown | libc::SYS_fchownat | libc::SYS_truncate | libc::SYS_utimensat | libc::SYS_utime
        | libc::SYS_utimes | libc::SYS_mknod | libc::SYS_mknodat | libc::SYS_setxattr | libc::SYS_lsetxattr
        | libc::SYS_fsetxattr | libc::SYS_removexattr | libc::SYS_sync | libc::SYS_syncfs
        // Sleeping would only take time.
        | libc::SYS_nanosleep | libc::SYS_clock_nanosleep | libc::SYS_pause
        // Handlers of the program that are run later would find another stack and another state.
        | libc::SYS_sigaltstack | libc::SYS_setitimer | libc::SYS_alarm | libc::SYS_timer_settime => Fate::Answer(0),
        libc::SYS_rt_sigaction if a[0] == i64::from(libc::SIGSYS) => Fate::Answer(0),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork | libc::SYS_execve
        | libc::SYS_execveat | libc::SYS_exit | libc::SYS_exit_group | libc::SYS_kill | libc::SYS_tkill
        | libc::SYS_tgkill | libc::SYS_socket | libc::SYS_connect | libc::SYS_bind | libc::SYS_sendto
        | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_sendfile | libc::SYS_splice | libc::SYS_copy_file_range
        | libc::SYS_ptrace | libc::SYS_process_vm_writev | libc::SYS_shmget | libc::SYS_shmat | libc::SYS_msgsnd
        | libc::SYS_semop | libc::SYS_io_uring_setup | libc::SYS_io_submit | libc::SYS_mount => Fate::GiveUp,
        _ => Fate::Pass,
    }
}

/// Bytes of a list of buffers.
fn total(list: i64, count: i64) -> i64 {
    // SAFETY: the program's list, as long as it says.
    let list = unsafe { std::slice::from_raw_parts(list as *const libc::iovec, count.clamp(0, 1024) as usize) };
    list.iter().map(|buffer| buffer.iov_len as i64).sum()
}

fn on_own(descriptor: i64, pretended: i64) -> Fate {
    let is_own = FILES
        .get()
        .as_ref()
        .is_some_and(|files| files.own.contains(&(descriptor as c_int)));
    if is_own { Fate::Pass } else { Fate::Answer(pretended) }
}

fn forget(descriptor: c_int) {
    if let Some(files) = FILES.get() {
        files.own.retain(|&own| own != descriptor);
    }
}

fn opened(directory: i64, path: i64, flags: i64) -> Fate {
    let Some(files) = FILES.get() else { return Fate::GiveUp };
    // SAFETY: the program's path.
    let path = unsafe { CStr::from_ptr(path as *const _) }.to_bytes();
    let flags = flags as c_int;
    let name = [
        &directory.to_le_bytes()[..if path.starts_with(b"/") { 0 } else { 8 }],
        path,
    ]
    .concat();
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    let is_device = path.starts_with(b"/dev/") || path.starts_with(b"/proc/");
    match files.by_path.get(&name) {
        Some(&kept) => again(files, kept, flags),
        None if !writes || is_device => Fate::Pass,
        None if flags & libc::O_CREAT == 0 && flags & libc::O_TRUNC == 0 => update(files, name, directory, path, flags),
        None => fresh(files, name, flags),
    }
}

/// A duplicate whose number the program does not use.
unsafe fn out_of_the_way(descriptor: i64) -> i64 {
    let base = i64::from(understudy_abi::RUNTIME_FD_BASE);
    let arguments = [descriptor, i64::from(libc::F_DUPFD_CLOEXEC), base, 0, 0, 0];
    // SAFETY: fcntl(2) on a descriptor.
    unsafe { make(libc::SYS_fcntl, &arguments) }
}

/// An empty file in memory in place of one that is made or truncated.
fn fresh(files: &mut Files, name: Vec<u8>, flags: c_int) -> Fate {
    // SAFETY: plain system calls. The descriptor is the lowest free one, as the program's would be; a duplicate that is
    // out of its way keeps the contents.
    unsafe {
        let close = if flags & libc::O_CLOEXEC == 0 {
            0
        } else {
            i64::from(libc::MFD_CLOEXEC)
        };
        let descriptor = make(
            libc::SYS_memfd_create,
            &[c"held back".as_ptr() as i64, close, 0, 0, 0, 0],
        );
        if descriptor >= 0 {
            let kept = out_of_the_way(descriptor);
            files.own.push(descriptor as c_int);
            files.by_path.insert(name, kept as c_int);
        }
        Fate::Answer(descriptor)
    }
}

/// A file that exists and is written to: a copy in memory.
fn update(files: &mut Files, name: Vec<u8>, directory: i64, path: &[u8], flags: c_int) -> Fate {
    let Ok(text) = std::ffi::CString::new(path) else {
        return Fate::Answer(ENOENT);
    };
    // SAFETY: plain system calls.
    unsafe {
        let read = i64::from(libc::O_RDONLY | libc::O_CLOEXEC);
        let source = make(libc::SYS_openat, &[directory, text.as_ptr() as i64, read, 0, 0, 0]);
        if source < 0 {
            return Fate::Answer(source);
        }
        let aside = out_of_the_way(source);
        make(libc::SYS_close, &[source, 0, 0, 0, 0, 0]);
        let fate = fresh(files, name, flags);
        if let Fate::Answer(descriptor @ 0..) = fate {
            while make(libc::SYS_sendfile, &[descriptor, aside, 0, 1 << 30, 0, 0]) > 0 {}
            make(libc::SYS_lseek, &[descriptor, 0, i64::from(libc::SEEK_SET), 0, 0, 0]);
        }
        make(libc::SYS_close, &[aside, 0, 0, 0, 0, 0]);
        fate
    }
}

/// A file that is in memory already.
fn again(files: &mut Files, kept: c_int, flags: c_int) -> Fate {
    let path = format!("/proc/self/fd/{kept}\0");
    let flags = i64::from(flags & !(libc::O_CREAT | libc::O_EXCL));
    // SAFETY: a plain system call.
    let descriptor = unsafe {
        make(
            libc::SYS_openat,
            &[i64::from(libc::AT_FDCWD), path.as_ptr() as i64, flags, 0, 0, 0],
        )
    };
    if descriptor >= 0 {
        files.own.push(descriptor as c_int);
    }
    Fate::Answer(descriptor)
}
