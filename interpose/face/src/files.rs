//! Reports changes of files and their names to the runtime before they happen.
//!
//! Each function replaces the function of libc of its name. In a rank, the runtime first saves what
//! the call is going to destroy, so that a rollback can undo the call; then libc's function is
//! called. Child processes of a rank report to the rank ([`crate::child_effects`]). In all other
//! processes, libc's function is called at once. Calls within libc do not use these functions, so
//! fopen(3), which opens files without open(2) of this module, is also defined here.
#![allow(unsafe_code)]

use crate::effect_reports::{AT_FDCWD, report, report_pair, reporting_functions};
use crate::overwrites::{self, is_name_awaited};
use crate::{child_effects, stop, sys};
use core::ffi::{c_char, c_int, c_uint, c_void};
use understudy_abi::effect;

const O_ACCMODE: c_int = 0o3;
const O_CREAT: c_int = 0o100;
const O_TRUNC: c_int = 0o1000;

/// Reports dlopen(3) and dlclose(3) of the program.
///
/// `path` is the name of the library or null; `value` is the flags or the handle.
///
/// # Safety
/// The string must be valid or null.
pub unsafe fn report_library(kind: u32, path: *const c_char, value: i64) {
    // SAFETY: the caller guarantees that the string is valid or null.
    if unsafe { report(kind, AT_FDCWD, path, value) } {
        stop::unblock();
    }
}

/// Reports open(2) if its flags permit changes.
///
/// # Safety
/// The string must be valid or null.
unsafe fn report_open(directory: c_int, path: *const c_char, flags: c_int) -> bool {
    let may_change = flags & (O_ACCMODE | O_CREAT | O_TRUNC) != 0;
    // SAFETY: the caller guarantees that the string is valid or null.
    may_change && unsafe { report(effect::OPEN, directory, path, i64::from(flags)) }
}

/// Reports fopen(3) if its mode permits changes.
///
/// # Safety
/// The strings must be valid or null.
unsafe fn report_stream(path: *const c_char, mode: *const c_char) -> bool {
    if path.is_null() || mode.is_null() {
        return false;
    }
    // SAFETY: the caller guarantees that each string is valid or null.
    let mode = unsafe { sys::bytes(mode) };
    // The text after a comma does not concern the file (fopen(3): ccs).
    let letters = mode.split(|&byte| byte == b',').next().unwrap_or(mode);
    let has = |letter: u8| letters.contains(&letter);
    let access = if has(b'+') { 0o2 } else { 0o1 };
    let exclusive = if has(b'x') { 0o200 } else { 0 };
    let flags = match letters.first() {
        Some(b'r') if has(b'+') => access,
        Some(b'w') => access | O_CREAT | O_TRUNC | exclusive,
        Some(b'a') => access | O_CREAT | 0o2000 | exclusive,
        _ => return false,
    };
    // SAFETY: the caller guarantees that each string is valid or null.
    unsafe { report_open(AT_FDCWD, path, flags) }
}

/// Reports the return of a call that may have created a name, if awaited.
fn report_return(_: c_int) {
    if is_name_awaited() || child_effects::is_name_awaited() {
        // SAFETY: `report` permits a null pointer in place of the string.
        let is_blocked = unsafe { report(effect::NAME_CREATED, AT_FDCWD, core::ptr::null(), 0) };
        if is_blocked {
            stop::unblock();
        }
    }
}

/// Records a new descriptor, perhaps of a new file.
fn record_descriptor(fd: c_int) {
    overwrites::record_descriptor(fd);
    report_return(fd);
}

/// Records a new stream, perhaps of a new file.
///
/// # Safety
/// `stream` must be a stream of libc, or null.
unsafe fn record_stream(stream: *mut c_void) {
    // SAFETY: the caller guarantees that `stream` is a stream of libc or null.
    unsafe { overwrites::record_stream(stream) };
    report_return(0);
}

type Name = *const c_char;
type Stream = *mut c_void;

reporting_functions! {
    fn open(path: Name, flags: c_int, mode: c_uint) -> c_int {
        report_open(AT_FDCWD, path, flags)
    } => record_descriptor;
    fn open64(path: Name, flags: c_int, mode: c_uint) -> c_int {
        report_open(AT_FDCWD, path, flags)
    } => record_descriptor;
    fn openat(directory: c_int, path: Name, flags: c_int, mode: c_uint) -> c_int {
        report_open(directory, path, flags)
    } => record_descriptor;
    fn openat64(directory: c_int, path: Name, flags: c_int, mode: c_uint) -> c_int {
        report_open(directory, path, flags)
    } => record_descriptor;
    fn __open_2(path: Name, flags: c_int) -> c_int { report_open(AT_FDCWD, path, flags) } => record_descriptor;
    fn __open64_2(path: Name, flags: c_int) -> c_int { report_open(AT_FDCWD, path, flags) } => record_descriptor;
    fn __openat_2(directory: c_int, path: Name, flags: c_int) -> c_int {
        report_open(directory, path, flags)
    } => record_descriptor;
    fn __openat64_2(directory: c_int, path: Name, flags: c_int) -> c_int {
        report_open(directory, path, flags)
    } => record_descriptor;
    fn creat(path: Name, mode: c_uint) -> c_int {
        report_open(AT_FDCWD, path, O_CREAT | O_TRUNC | 1)
    } => record_descriptor;
    fn creat64(path: Name, mode: c_uint) -> c_int {
        report_open(AT_FDCWD, path, O_CREAT | O_TRUNC | 1)
    } => record_descriptor;
    fn fopen(path: Name, mode: Name) -> Stream { report_stream(path, mode) } => record_stream;
    fn fopen64(path: Name, mode: Name) -> Stream { report_stream(path, mode) } => record_stream;
    fn freopen(path: Name, mode: Name, stream: Stream) -> Stream {
        report_stream(path, mode)
    } => record_stream;
    fn freopen64(path: Name, mode: Name, stream: Stream) -> Stream {
        report_stream(path, mode)
    } => record_stream;

    fn rename(old: Name, new: Name) -> c_int {
        report_pair(effect::RENAME, AT_FDCWD, old, AT_FDCWD, new, 0)
    }
    fn renameat(old_directory: c_int, old: Name, new_directory: c_int, new: Name) -> c_int {
        report_pair(effect::RENAME, old_directory, old, new_directory, new, 0)
    }
    fn renameat2(
        old_directory: c_int, old: Name, new_directory: c_int, new: Name, flags: c_uint
    ) -> c_int {
        report_pair(effect::RENAME, old_directory, old, new_directory, new, i64::from(flags))
    }
    fn unlink(path: Name) -> c_int { report(effect::REMOVE, AT_FDCWD, path, effect::NON_DIRECTORIES) }
    fn unlinkat(directory: c_int, path: Name, flags: c_int) -> c_int {
        report(effect::REMOVE, directory, path, if flags & 0x200 == 0 {
            effect::NON_DIRECTORIES
        } else {
            effect::DIRECTORIES
        })
    }
    fn rmdir(path: Name) -> c_int { report(effect::REMOVE, AT_FDCWD, path, effect::DIRECTORIES) }
    fn remove(path: Name) -> c_int {
        report(effect::REMOVE, AT_FDCWD, path, effect::NON_DIRECTORIES | effect::DIRECTORIES)
    }

    fn mkdir(path: Name, mode: c_uint) -> c_int {
        report(effect::CREATE, AT_FDCWD, path, effect::DIRECTORIES)
    } => report_return;
    fn mkdirat(directory: c_int, path: Name, mode: c_uint) -> c_int {
        report(effect::CREATE, directory, path, effect::DIRECTORIES)
    } => report_return;
    fn link(old: Name, new: Name) -> c_int {
        report(effect::CREATE, AT_FDCWD, new, effect::NON_DIRECTORIES)
    } => report_return;
    fn linkat(
        old_directory: c_int, old: Name, new_directory: c_int, new: Name, flags: c_int
    ) -> c_int {
        report(effect::CREATE, new_directory, new, effect::NON_DIRECTORIES)
    } => report_return;
    fn symlink(target: Name, new: Name) -> c_int {
        report(effect::CREATE, AT_FDCWD, new, effect::NON_DIRECTORIES)
    } => report_return;
    fn symlinkat(target: Name, directory: c_int, new: Name) -> c_int {
        report(effect::CREATE, directory, new, effect::NON_DIRECTORIES)
    } => report_return;

    fn truncate(path: Name, length: i64) -> c_int { report(effect::TRUNCATE, AT_FDCWD, path, length) }
    fn truncate64(path: Name, length: i64) -> c_int {
        report(effect::TRUNCATE, AT_FDCWD, path, length)
    }
    fn ftruncate(fd: c_int, length: i64) -> c_int {
        report(effect::FTRUNCATE, fd, core::ptr::null(), length)
    }
    fn ftruncate64(fd: c_int, length: i64) -> c_int {
        report(effect::FTRUNCATE, fd, core::ptr::null(), length)
    }
}
