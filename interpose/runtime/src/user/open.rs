//! Descriptors that the program has open.
#![allow(unsafe_code)]

use understudy_abi::RUNTIME_FD_BASE;

/// Returns the open descriptors of the program side.
///
/// poll(2) would report all at once, but for those that are open for their names alone (O_PATH).
pub(super) fn descriptors() -> Vec<i32> {
    // SAFETY: fcntl(2) that only asks.
    let is_open = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
    (0..RUNTIME_FD_BASE).filter(is_open).collect()
}

pub(super) fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: fstat(2) fills the structure.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    }
}
