//! The heaps of ld.so for the program side and the runtime side.

/// Capacity of a list of library addresses, including the 0 that ends the list.
pub const MAX_LIBRARY_ADDRESSES: usize = 256;

/// Size in bytes of the header before every block of ld.so's heaps.
///
/// The header stores the binary logarithm of the block's size, and a flag for link maps.
pub const LD_HEAP_HEADER: usize = 16;
/// Number of size classes, which are powers of two.
pub const LD_HEAP_CLASSES: usize = 28;
/// Number of regions of each heap; each size class uses one of them.
pub const LD_HEAP_REGIONS: usize = 32;

/// Access to ld.so's heap for the program side, and addresses of the heap's next blocks.
#[repr(C)]
pub struct LoaderHeap {
    /// Bookkeeping of the heap, which is saved together with the heap's content.
    pub state: *mut u8,
    pub state_length: usize,
    /// Bytes in use at the beginning of each region.
    ///
    /// The first array is for the program side's heap, the second for the runtime side's.
    pub used: [*const [usize; LD_HEAP_CLASSES]; 2],
    /// Number of allocations and releases for the program side.
    pub changes: *const usize,
    /// Reserves the block at this address; returns false if the block is in use.
    pub reserve: unsafe extern "C" fn(usize) -> bool,
    /// Reserved blocks for the next link maps, in order; 0 ends the list.
    pub link_maps: *mut [usize; MAX_LIBRARY_ADDRESSES],
    /// Reserved block for the next request that is not a link map, or zero.
    pub next_block: *mut usize,
}
