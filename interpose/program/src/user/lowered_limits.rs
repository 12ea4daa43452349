//! Resource limits that the program has lowered below understudy's needs.
#![allow(unsafe_code)]

use super::kernel_calls::kernel_calls;
use std::sync::atomic::Ordering;
use understudy_abi::limits::{ADDRESSES, DATA, FILES, MinimumLimit};

/// Returns a limit of this process; `None` after an error.
///
/// Sets the limit to `new` if a value is given.
fn limit(minimum: MinimumLimit, new: Option<libc::rlimit64>) -> Option<libc::rlimit64> {
    let mut before = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: prlimit64(2) reads `new`, unless it is null, and writes `before`.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            minimum.resource,
            new,
            &raw mut before,
        )
    };
    (rc == 0).then_some(before)
}

/// Returns a limit that is too low, and its value.
pub(super) fn first_low_limit() -> Option<(MinimumLimit, u64)> {
    let value = |minimum: MinimumLimit| Some((minimum, limit(minimum, None)?.rlim_cur));
    let mut all = [FILES, ADDRESSES, DATA].into_iter().filter_map(value);
    all.find(|(minimum, value)| *value < minimum.limit)
}

/// Raised limit on open files, restored when the value is dropped.
///
/// Undo logs of files need descriptors. An unprivileged process can raise the limit up to the hard
/// limit only.
#[derive(Debug)]
pub(super) struct TemporaryFileLimit(Option<libc::rlimit64>);

impl TemporaryFileLimit {
    /// Raises the limit if needed.
    pub(super) fn new() -> TemporaryFileLimit {
        // The preload library has checked the limits at the start. They have not changed if the
        // program has made no call that sets limits since the start, so a system call is saved.
        if kernel_calls().limits.load(Ordering::Relaxed) == 0 {
            return TemporaryFileLimit(None);
        }
        let Some(before) = limit(FILES, None).filter(|it| it.rlim_cur < FILES.limit) else {
            return TemporaryFileLimit(None);
        };
        let up_to = |rlim_max: u64| libc::rlimit64 {
            rlim_cur: FILES.limit.min(rlim_max),
            rlim_max,
        };
        let raised = limit(FILES, Some(up_to(before.rlim_max.max(FILES.limit))));
        // An unprivileged process cannot exceed the hard limit.
        raised.or_else(|| limit(FILES, Some(up_to(before.rlim_max))));
        TemporaryFileLimit(Some(before))
    }
}

impl Drop for TemporaryFileLimit {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            limit(FILES, Some(before));
        }
    }
}
