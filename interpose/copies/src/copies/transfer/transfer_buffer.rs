//! Memory of the messages of a transfer.
#![allow(unsafe_code)]

use std::ffi::c_void;
use understudy_image::wire::ChunkMut;
use understudy_mpi::in_flight::Buffer;

/// Memory that a message of a transfer is sent from or received into.
pub(super) enum TransferBuffer {
    Bytes(Vec<u8>),
    Sums(Vec<u64>),
    Pages(PageSlots),
}

/// Consecutive slots of the page store.
pub(super) struct PageSlots(ChunkMut);

impl PageSlots {
    /// Describes slots by their address and length in bytes.
    ///
    /// # Safety
    /// The slots must not be released before the operation is complete or all processes have left
    /// the MPI instance. Slots to send must not be changed until then, and slots to receive into
    /// must not be accessed.
    pub(super) unsafe fn new(ptr: *mut u8, len: usize) -> PageSlots {
        PageSlots(ChunkMut { ptr, len })
    }
}

// SAFETY: vectors fulfil the contract by their own implementations of `Buffer`. Slots fulfil it by
// the contract of `PageSlots::new`, and the memory of the page store is never unmapped.
unsafe impl Buffer for TransferBuffer {
    fn memory(&mut self) -> (*mut c_void, usize) {
        match self {
            TransferBuffer::Bytes(bytes) => bytes.memory(),
            TransferBuffer::Sums(sums) => sums.memory(),
            TransferBuffer::Pages(PageSlots(chunk)) => (chunk.ptr.cast(), chunk.len),
        }
    }
}

impl TransferBuffer {
    /// Returns the bytes of a message that is neither pages nor checksums.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            TransferBuffer::Bytes(bytes) => bytes,
            TransferBuffer::Sums(_) | TransferBuffer::Pages(_) => Vec::new(),
        }
    }
}
