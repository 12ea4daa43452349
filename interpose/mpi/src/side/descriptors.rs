//! Descriptors of the MPI side: those from [`MPI_FD_BASE`] on.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use understudy_abi::MPI_FD_BASE;

/// Open descriptors, in ascending order.
pub struct Saved(Vec<c_int>);

impl Saved {
    pub fn take() -> Saved {
        let entries = std::fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut open: Vec<c_int> = numbers.filter(|&number| number >= MPI_FD_BASE).collect();
        open.sort_unstable();
        Saved(open)
    }

    /// Closes all other descriptors.
    ///
    /// # Safety
    /// No other code may use them any more.
    pub unsafe fn put_back(&self) {
        let mut first = MPI_FD_BASE as c_uint;
        let last = self
            .0
            .iter()
            .map(|&number| number as c_uint)
            .chain([c_uint::MAX]);
        for kept in last {
            if first < kept {
                // SAFETY: close_range(2) of descriptors of the library.
                unsafe { libc::close_range(first, kept - u32::from(kept != c_uint::MAX), 0) };
            }
            first = kept.saturating_add(1);
        }
    }
}
