//! The few system calls that have no safe wrapper, and lookups in both namespaces.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

/// Dies at once, as by `kill -9`.
pub fn kill_self() -> ! {
    // SAFETY: kill(2) on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}

/// Ends the process without running anything else.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2).
    unsafe { libc::_exit(status) }
}

/// A symbol of the runtime side's namespace; null if there is none.
pub fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: dlsym(3), called from this library and not as a tail call, so that it searches this namespace.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    std::hint::black_box(address)
}

/// Tells the user something: one line on the job's standard error, past the program's own stream, whose bytes are
/// counted.
pub fn say(message: std::fmt::Arguments<'_>) {
    write_message(format!("understudy: {message}\n").as_bytes());
}

/// Writes to the job's standard error, past the program's own stream.
pub fn write_message(bytes: &[u8]) {
    let fd = crate::boot::message_descriptor();
    // SAFETY: write(2) of a valid buffer; nothing can be done about a failure.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
}
