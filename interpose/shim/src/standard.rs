//! Descriptors that stand for standard output and error in this namespace.

use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

pub const STDOUT: c_int = 1;
pub const STDERR: c_int = 2;

/// Stands for descriptor 1.
pub static OUTPUT: AtomicI32 = AtomicI32::new(STDOUT);
/// Stands for descriptor 2.
pub static ERRORS: AtomicI32 = AtomicI32::new(STDERR);

/// Returns the descriptor that stands for `fd` in this namespace.
pub fn own(fd: c_int) -> c_int {
    match fd {
        STDOUT => OUTPUT.load(Relaxed),
        STDERR => ERRORS.load(Relaxed),
        _ => fd,
    }
}
