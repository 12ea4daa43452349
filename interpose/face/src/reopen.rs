//! A program that opens the MPI library itself, by its path or as `libmpi.so`, gets this library:
//! the loader would bring in a second one beside it, half of whose symbols would be this library's.
//!
//! The runtime is told of all that the program opens and closes: an understudy does the same.
#![allow(unsafe_code)]

use crate::link::{self, OUR_SONAME, Path, SONAME};
use crate::{files, libc, sys};
use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use understudy_abi::effect;

/// libc's function of this name, with another path if need be. It is jumped to, since it goes by
/// its caller's address.
///
/// # Safety
/// As libc's.
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
        path = sym replaced,
        real = sym libc::real_open,
    )
}

/// dlclose(3) of the program.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    // SAFETY: no string; the rest is handed on to the caller.
    unsafe {
        files::tell_library(effect::CLOSE_LIBRARY, core::ptr::null(), handle as i64);
        libc::real_close()(handle)
    }
}

/// Tells the runtime of it. Returns the name under which ld.so finds this library, if that is what
/// `path` is about.
extern "C" fn replaced(path: *const c_char, flags: c_int) -> *const c_char {
    let path = name_of(path);
    // SAFETY: the program's string, or ours.
    unsafe { files::tell_library(effect::OPEN_LIBRARY, path, i64::from(flags)) };
    path
}

fn name_of(path: *const c_char) -> *const c_char {
    if path.is_null() {
        return path;
    }
    // SAFETY: the program's string.
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
        link::ask_for(real);
    }
    SONAME.as_ptr()
}
