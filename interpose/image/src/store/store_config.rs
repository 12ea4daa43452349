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
    /// True if children of fork(2) do not inherit the arena.
    ///
    /// Children do not need the arena, and the next capture would fault on each page shared with
    /// them.
    pub dont_fork: bool,
}
