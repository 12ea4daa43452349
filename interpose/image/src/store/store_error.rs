//! Errors of a store.

use std::io;

/// Failed action of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The arena's addresses could not be reserved.
    #[error("cannot reserve {bytes} bytes of addresses for the page store")]
    Reserve {
        /// Requested bytes.
        bytes: usize,
        source: io::Error,
    },
    /// More of the arena could not be made accessible.
    #[error("cannot open {bytes} more bytes of the page store")]
    Grow {
        /// Requested bytes.
        bytes: usize,
        source: io::Error,
    },
    /// Free memory could not be returned to the kernel.
    #[error("cannot give back {pages} pages of the page store")]
    GiveBack {
        /// Pages to return.
        pages: u64,
        source: io::Error,
    },
    /// The arena has no room.
    #[error("the page store has no room for {wanted} pages: {live} of {capacity} in use")]
    Full {
        /// Requested pages.
        wanted: u64,
        /// Used pages.
        live: u64,
        /// Capacity in pages.
        capacity: u64,
    },
}
