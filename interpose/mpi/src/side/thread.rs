//! The MPI side's state in the calling thread.
//!
//! The state consists of thread-local data, values of pthread keys, and the state of cancellation.
#![allow(unsafe_code)]

use super::side_error::ResetError;
use super::threads::Layout;
use crate::library;
use std::ops::Range;
use understudy_abi::{MPI_FIRST_KEY, control_block};

const KEYS_PER_BLOCK: usize = 32;
/// Number of blocks of keys (PTHREAD_KEYS_MAX / KEYS_PER_BLOCK).
const KEY_BLOCKS: usize = 32;

/// Saved content of a range of memory.
struct SavedRange {
    address: usize,
    bytes: Vec<u8>,
}

/// The MPI side's state in the calling thread, at the snapshot.
pub struct SavedThreadState(Vec<SavedRange>);

impl SavedThreadState {
    pub fn take() -> Result<SavedThreadState, ResetError> {
        let layout = Layout::get()?;
        let own = control_block::address();
        let first = MPI_FIRST_KEY as usize / KEYS_PER_BLOCK;
        let keys = own + layout.specific + first * size_of::<usize>();
        let cancellation = own + layout.cancellation;
        let ranges = blocks()
            .chain(std::iter::once(
                keys..keys + (KEY_BLOCKS - first) * size_of::<usize>(),
            ))
            .chain(std::iter::once(
                cancellation..cancellation + size_of::<u32>(),
            ));
        let copy = |range: Range<usize>| SavedRange {
            address: range.start,
            // SAFETY: the range is part of this thread's control block or thread-local data.
            bytes: unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) }
                .to_vec(),
        };
        Ok(SavedThreadState(ranges.map(copy).collect()))
    }

    /// Restores the saved state.
    ///
    /// # Safety
    /// This thread must not be in a call of the library.
    pub unsafe fn put_back(&self) {
        for saved in &self.0 {
            // SAFETY: the range is part of this thread's control block or thread-local data, and
            // has the length of the saved bytes.
            unsafe {
                (saved.address as *mut u8)
                    .copy_from_nonoverlapping(saved.bytes.as_ptr(), saved.bytes.len())
            };
        }
    }
}

/// Iterates over the thread-local blocks of the MPI side's libraries in this thread.
///
/// Missing blocks are allocated.
fn blocks() -> impl Iterator<Item = Range<usize>> {
    unsafe extern "C" {
        // ELF Handling For Thread-Local Storage, 3.4.2: module and offset.
        fn __tls_get_addr(index: *const [usize; 2]) -> *mut u8;
    }
    let with_data = library::modules()
        .into_iter()
        .filter(|module| module.thread_local != 0);
    with_data.map(|module| {
        // SAFETY: a loaded module that has thread-local data.
        let start = unsafe { __tls_get_addr(&[module.thread_local_number, 0]) } as usize;
        start..start + module.thread_local
    })
}
