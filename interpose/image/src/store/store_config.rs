//! Configuration of a store.

/// Configuration of an arena.
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Start of the arena; `None` leaves the choice to the kernel.
    ///
    /// In the runtime the start is an address of the runtime zone, so that the arena is not taken
    /// for memory of the program.
    pub base: Option<u64>,
    /// Number of pages that can be stored; only addresses are used up until they are.
    pub capacity_pages: u64,
    /// True if children of the program do not get the arena.
    ///
    /// They have no use for it, and pages shared with them would fault at the next capture.
    pub dont_fork: bool,
}
