//! Redirects a program that opens the MPI library with dlopen(3) to this library.
//!
//! Programs open the MPI library by its path or as `libmpi.so`. Without this redirection, ld.so
//! would load the real library into the program's namespace, and bind half of its symbols to this
//! library. All libraries that the program opens and closes are reported to the runtime, because a
//! replacement must open and close them, too.
#![allow(unsafe_code)]

use crate::link::{self, OUR_SONAME, Path, SONAME};
use crate::{files, libc, sys};
use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use understudy_abi::effect;

/// dlopen(3) of the program, with the path replaced if necessary.
///
/// The function jumps to libc's instead of calling it: libc's function determines the caller's
/// namespace by the return address, which must stay the program's.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(path: *const c_char, flags: i32) -> *mut c_void {
    naked_asm!(
        "push rsi",
        "call {path}",
        "push rax",
        "sub rsp, 8",
        "call {real}",
        "add rsp, 8",
        "pop rdi",
        "pop rsi",
        "jmp rax",
        path = sym report_and_replace,
        real = sym libc::real_open,
    )
}

/// dlclose(3) of the program.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    // SAFETY: `report_library` permits a null pointer; the caller meets the requirements of libc's
    // function.
    unsafe {
        files::report_library(effect::CLOSE_LIBRARY, core::ptr::null(), handle as i64);
        libc::real_close()(handle)
    }
}

/// Reports the opening of a library.
///
/// Returns the soname under which ld.so finds this library, if `path` names libmpi; else `path`.
extern "C" fn report_and_replace(path: *const c_char, flags: c_int) -> *const c_char {
    let path = replaced_name(path);
    // SAFETY: a constant, or the string that the program passes to dlopen(3), which requires a
    // valid string or null.
    unsafe { files::report_library(effect::OPEN_LIBRARY, path, i64::from(flags)) };
    path
}

/// Returns this library's soname if `path` names libmpi, else `path`.
///
/// A path of libmpi with a directory is stored as the real library's ([`link::requested_file`]).
fn replaced_name(path: *const c_char) -> *const c_char {
    if path.is_null() {
        return path;
    }
    // SAFETY: the program passes the string to dlopen(3), which requires a valid string or null.
    let text = unsafe { sys::bytes(path) };
    let file = text.rsplit(|&byte| byte == b'/').next().unwrap_or(text);
    let has_directory = text.len() > file.len();
    let mut real = Path::new();
    real.push(Path::directory(text)).push(b"/").push(OUR_SONAME);
    let is_ours =
        file.starts_with(OUR_SONAME) || file == b"libmpi.so" && (!has_directory || real.is_file());
    if !is_ours {
        return path;
    }
    if has_directory {
        link::set_requested_file(real);
    }
    SONAME.as_ptr()
}
