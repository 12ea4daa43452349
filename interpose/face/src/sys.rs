//! Raw system calls, which work before libc is initialised and never allocate.
#![allow(unsafe_code)]

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int};

/// Numbers of the system calls (x86-64).
pub mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const STAT: usize = 4;
    pub const FSTAT: usize = 5;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const PREAD64: usize = 17;
    pub const ACCESS: usize = 21;
    pub const DUP2: usize = 33;
    pub const NANOSLEEP: usize = 35;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDMSG: usize = 46;
    pub const GETSOCKOPT: usize = 55;
    pub const GETPPID: usize = 110;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const PRCTL: usize = 157;
    pub const GETXATTR: usize = 191;
    pub const GETTID: usize = 186;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const SCHED_YIELD: usize = 24;
    pub const RT_TGSIGQUEUEINFO: usize = 297;
    pub const FORK: usize = 57;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const FCNTL: usize = 72;
    pub const READLINK: usize = 89;
    pub const SIGALTSTACK: usize = 131;
    pub const PERSONALITY: usize = 135;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const PIPE2: usize = 293;
    pub const MEMFD_CREATE: usize = 319;
    pub const CLOSE_RANGE: usize = 436;
    pub const PRLIMIT64: usize = 302;
    pub const SETSID: usize = 112;
    pub const ARCH_PRCTL: usize = 158;
    pub const FUTEX: usize = 202;
    pub const MEMBARRIER: usize = 324;
}

/// Makes a system call; the result is negative (`-errno`) on failure.
///
/// # Safety
/// The requirements of the system call apply.
pub unsafe fn call(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let result: isize;
    // SAFETY: the caller meets the requirements of the system call. The instruction follows the
    // x86-64 convention: it overwrites rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack)
        );
    }
    result
}

/// Makes a system call with at most six arguments.
macro_rules! sys {
    ($nr:expr) => { $crate::sys::call($nr, 0, 0, 0, 0, 0, 0) };
    ($nr:expr, $a:expr) => { $crate::sys::call($nr, $a as usize, 0, 0, 0, 0, 0) };
    ($nr:expr, $a:expr, $b:expr) => {
        $crate::sys::call($nr, $a as usize, $b as usize, 0, 0, 0, 0)
    };
    ($nr:expr, $a:expr, $b:expr, $c:expr) => {
        $crate::sys::call($nr, $a as usize, $b as usize, $c as usize, 0, 0, 0)
    };
    ($nr:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::sys::call($nr, $a as usize, $b as usize, $c as usize, $d as usize, 0, 0)
    };
    ($nr:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::sys::call(
            $nr, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize
        )
    };
}
pub(crate) use sys;

const PROT_READ_WRITE: usize = 3;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
pub const MAP_NORESERVE: usize = 0x4000;
pub const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

/// Maps `length` bytes of zeroed private memory.
///
/// A nonzero `address` is used exactly; the call fails if the range is in use.
pub fn map_anonymous(address: usize, length: usize, flags: usize) -> Result<usize, c_int> {
    let fixed = if address == 0 { 0 } else { MAP_FIXED_NOREPLACE };
    // SAFETY: a new mapping that replaces no other mapping.
    let mapped = unsafe {
        sys!(
            nr::MMAP,
            address,
            length,
            PROT_READ_WRITE,
            MAP_PRIVATE_ANONYMOUS | fixed | flags,
            -1isize,
            0
        )
    };
    if mapped < 0 && mapped > -4096 {
        return Err(-mapped as c_int);
    }
    if address != 0 && mapped as usize != address {
        const EEXIST: c_int = 17;
        // A kernel before 4.17 ignores MAP_FIXED_NOREPLACE, and treats the address as a hint.
        // SAFETY: this function has created the mapping, and no other code uses it.
        unsafe { sys!(nr::MUNMAP, mapped, length) };
        return Err(EEXIST);
    }
    Ok(mapped as usize)
}

/// Unmaps whole pages.
///
/// # Safety
/// The mapping must be the caller's, and no longer in use.
pub unsafe fn unmap(address: usize, length: usize) {
    // SAFETY: the caller guarantees that no code uses the mapping any more.
    unsafe { sys!(nr::MUNMAP, address, length) };
}

/// Changes the protection of whole pages (`prot` as for mprotect(2)).
///
/// # Safety
/// No code may depend on the previous protection.
pub unsafe fn protect(address: usize, length: usize, prot: usize) -> Result<(), c_int> {
    // SAFETY: the caller guarantees that no code depends on the previous protection.
    match unsafe { sys!(nr::MPROTECT, address, length, prot) } {
        0 => Ok(()),
        error => Err(-error as c_int),
    }
}

/// Returns device and inode of a file, or `None` if the file cannot be found.
pub fn file_id(path: &CStr) -> Option<[u64; 2]> {
    /// Words of `struct stat` (144 bytes), of which the first two are device and inode.
    const WORDS: usize = 18;
    let mut stat = [0u64; WORDS];
    // SAFETY: stat(2) writes a structure of this size.
    let result = unsafe { sys!(nr::STAT, path.as_ptr(), stat.as_mut_ptr()) };
    (result == 0).then_some([stat[0], stat[1]])
}

/// Ends the process immediately.
pub fn exit(status: c_int) -> ! {
    loop {
        // SAFETY: the process ends.
        unsafe { sys!(nr::EXIT_GROUP, status) };
    }
}

/// Returns the bytes of a C string without its NUL.
///
/// # Safety
/// `string` must be a valid C string.
pub unsafe fn bytes<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: the caller guarantees that `string` is a valid C string.
    unsafe { CStr::from_ptr(string) }.to_bytes()
}

/// Returns the soft limit of a resource (getrlimit(2)).
pub fn soft_limit(resource: usize) -> u64 {
    let mut limit = [u64::MAX; 2];
    // SAFETY: prlimit(2) fills the structure, which begins with the soft limit.
    unsafe { sys!(nr::PRLIMIT64, 0, resource, 0, limit.as_mut_ptr()) };
    limit[0]
}
