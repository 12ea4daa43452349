//! Files of other processes in /proc (proc(5)).
#![allow(unsafe_code)]

use crate::messages::Line;
use crate::sys::{nr, sys};
use core::fmt::Write;

/// Returns true if a string of a process's initial environment begins with `name`.
///
/// For a variable of the launcher, the result means that the launcher has started the process or an
/// ancestor of the process.
pub fn is_launched(process: isize, name: &[u8]) -> bool {
    // Number of bytes of the name that have matched. The first byte matches only at the beginning
    // of a variable.
    let (mut matched, mut is_at_start) = (0, true);
    read(process, "environ", |byte| {
        matched = match byte == name[matched] && (is_at_start || matched > 0) {
            true => matched + 1,
            false => 0,
        };
        is_at_start = byte == 0;
        matched < name.len()
    });
    matched == name.len()
}

/// Returns the parent of a process, or 0 if the parent is unknown.
pub fn parent_of(process: isize) -> isize {
    // proc_pid_stat(5): PID (NAME) STATE PPID. A name may contain spaces and parentheses, so the
    // search begins again at each closing parenthesis.
    let (mut spaces, mut parent) = (0, 0);
    read(process, "stat", |byte| {
        match byte {
            b')' => (spaces, parent) = (0, 0),
            b' ' => spaces += 1,
            digit if spaces == 2 && digit.is_ascii_digit() => {
                parent = parent * 10 + isize::from(digit - b'0')
            }
            _ => {}
        }
        true
    });
    parent
}

/// Passes the bytes of a file of /proc/PROCESS to `take`, until `take` returns false.
fn read(process: isize, file: &str, mut take: impl FnMut(u8) -> bool) {
    let mut path = Line::new();
    let _ = write!(path, "/proc/{process}/{file}\0");
    let mut buffer = [0u8; 4096];
    // SAFETY: system calls on a descriptor of this function and on buffers of the given lengths.
    unsafe {
        let fd = sys!(
            nr::OPENAT,
            -100isize,
            path.as_bytes().as_ptr(),
            0o2000000,
            0
        );
        if fd < 0 {
            return;
        }
        loop {
            let length = sys!(nr::READ, fd, buffer.as_mut_ptr(), buffer.len());
            if length <= 0 || !buffer[..length as usize].iter().all(|&byte| take(byte)) {
                break;
            }
        }
        sys!(nr::CLOSE, fd);
    }
}
