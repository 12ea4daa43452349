//! Reports changes of inodes' attributes to the runtime before they happen ([`crate::files`]).
#![allow(unsafe_code)]

use crate::effect_reports::{AT_FDCWD, report, report_pair, reporting_functions};
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr::null;
use understudy_abi::effect::{ATTRIBUTE, NO_FOLLOW};

const AT_SYMLINK_NOFOLLOW: c_int = 0x100;

type Name = *const c_char;
type Data = *const c_void;

/// Reports a change of an attribute.
///
/// The file is the one that `path` names, or that of descriptor `directory` if `path` is null.
///
/// # Safety
/// The string must be valid or null.
unsafe fn report_attribute(directory: c_int, path: Name, flags: c_int) -> bool {
    let value = if flags & AT_SYMLINK_NOFOLLOW != 0 {
        NO_FOLLOW
    } else {
        0
    };
    // SAFETY: the caller guarantees that the string is valid or null.
    unsafe { report(ATTRIBUTE, directory, path, value) }
}

/// Reports a change of an extended attribute.
///
/// The attribute is `name`. The file is the one that `path` names, or that of descriptor `file` if
/// `path` is null.
///
/// # Safety
/// The strings must be valid or null.
unsafe fn report_extended_attribute(file: c_int, path: Name, name: Name, value: i64) -> bool {
    // SAFETY: the caller guarantees that each string is valid or null.
    unsafe { report_pair(ATTRIBUTE, file, path, AT_FDCWD, name, value) }
}

reporting_functions! {
    fn chmod(path: Name, mode: c_uint) -> c_int { report_attribute(AT_FDCWD, path, 0) }
    fn lchmod(path: Name, mode: c_uint) -> c_int {
        report_attribute(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
    }
    fn fchmod(fd: c_int, mode: c_uint) -> c_int { report_attribute(fd, null(), 0) }
    fn fchmodat(directory: c_int, path: Name, mode: c_uint, flags: c_int) -> c_int {
        report_attribute(directory, path, flags)
    }
    fn chown(path: Name, owner: c_uint, group: c_uint) -> c_int {
        report_attribute(AT_FDCWD, path, 0)
    }
    fn lchown(path: Name, owner: c_uint, group: c_uint) -> c_int {
        report_attribute(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
    }
    fn fchown(fd: c_int, owner: c_uint, group: c_uint) -> c_int { report_attribute(fd, null(), 0) }
    fn fchownat(directory: c_int, path: Name, owner: c_uint, group: c_uint, flags: c_int) -> c_int {
        report_attribute(directory, path, flags)
    }
    fn utime(path: Name, times: Data) -> c_int { report_attribute(AT_FDCWD, path, 0) }
    fn utimes(path: Name, times: Data) -> c_int { report_attribute(AT_FDCWD, path, 0) }
    fn lutimes(path: Name, times: Data) -> c_int {
        report_attribute(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
    }
    fn futimes(fd: c_int, times: Data) -> c_int { report_attribute(fd, null(), 0) }
    fn futimesat(directory: c_int, path: Name, times: Data) -> c_int {
        report_attribute(directory, path, 0)
    }
    fn futimens(fd: c_int, times: Data) -> c_int { report_attribute(fd, null(), 0) }
    fn utimensat(directory: c_int, path: Name, times: Data, flags: c_int) -> c_int {
        report_attribute(directory, path, flags)
    }
    fn setxattr(path: Name, name: Name, value: Data, size: usize, flags: c_int) -> c_int {
        report_extended_attribute(AT_FDCWD, path, name, 0)
    }
    fn lsetxattr(path: Name, name: Name, value: Data, size: usize, flags: c_int) -> c_int {
        report_extended_attribute(AT_FDCWD, path, name, NO_FOLLOW)
    }
    fn fsetxattr(fd: c_int, name: Name, value: Data, size: usize, flags: c_int) -> c_int {
        report_extended_attribute(fd, null(), name, 0)
    }
    fn removexattr(path: Name, name: Name) -> c_int {
        report_extended_attribute(AT_FDCWD, path, name, 0)
    }
    fn lremovexattr(path: Name, name: Name) -> c_int {
        report_extended_attribute(AT_FDCWD, path, name, NO_FOLLOW)
    }
    fn fremovexattr(fd: c_int, name: Name) -> c_int {
        report_extended_attribute(fd, null(), name, 0)
    }
}
