//! The heap of ld.so.

/// Maximum number of addresses of libraries, with the 0 that ends the list.
pub const LIBRARY_PLACES: usize = 256;

/// Bytes before every block of ld.so's heaps.
///
/// They hold the binary logarithm of the block's size, and a flag for link maps.
pub const LD_HEAP_HEADER: usize = 16;
/// Number of size classes: powers of two.
pub const LD_HEAP_CLASSES: usize = 28;
/// Number of regions of each heap, one for each class.
pub const LD_HEAP_REGIONS: usize = 32;

/// The user side's part of ld.so's heap, and the places of its next blocks.
#[repr(C)]
pub struct LoaderHeap {
    /// The heap's own books, which belong to its content.
    pub state: *mut u8,
    pub state_length: usize,
    /// Bytes in use at the beginning of each region, of the user side's heap and of the runtime
    /// side's.
    pub used: [*const [usize; LD_HEAP_CLASSES]; 2],
    /// Number of allocations and releases for the user side.
    pub changes: *const usize,
    /// Reserves the block with this address; false if it is in use.
    pub reserve: unsafe extern "C" fn(usize) -> bool,
    /// Reserved blocks for the next link maps, in order; 0 ends the list.
    pub link_maps: *mut [usize; LIBRARY_PLACES],
    /// A reserved block for the next request for anything else; 0: none.
    pub next_block: *mut usize,
}
