//! Descriptors of the MPI side: those from [`MPI_FD_BASE`] on.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use understudy_abi::MPI_FD_BASE;

/// Descriptors of the MPI side that were open at the snapshot, in ascending order.
pub struct SavedDescriptors(Vec<c_int>);

impl SavedDescriptors {
    pub fn take() -> SavedDescriptors {
        let entries = std::fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut open: Vec<c_int> = numbers.filter(|&number| number >= MPI_FD_BASE).collect();
        open.sort_unstable();
        SavedDescriptors(open)
    }

    /// Closes the MPI side's descriptors that have been opened since the snapshot.
    ///
    /// # Safety
    /// No code may use these descriptors any more.
    pub unsafe fn put_back(&self) {
        let mut first = MPI_FD_BASE as c_uint;
        // The ranges between saved descriptors, and the range after the last one, are closed.
        let ends = self
            .0
            .iter()
            .map(|&number| number as c_uint)
            .chain([c_uint::MAX]);
        for end in ends {
            if first < end {
                // SAFETY: close_range(2) of descriptors of the library.
                unsafe { libc::close_range(first, end - u32::from(end != c_uint::MAX), 0) };
            }
            first = end.saturating_add(1);
        }
    }
}
