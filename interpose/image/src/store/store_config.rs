//! Configuration of a store.

/// Configuration of an arena.
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Start of the arena; `None` leaves the choice to the kernel.
    ///
    /// The runtime uses an address in the reserved range, so that the arena does not count as
    /// memory of the program.
    pub base: Option<u64>,
    /// Maximum number of stored pages. Unused ones consume only addresses.
    pub capacity_pages: u64,
    /// True if children of the program do not get the arena.
    ///
    /// Children do not need the arena, and pages shared with them would fault at the next capture.
    pub dont_fork: bool,
}
