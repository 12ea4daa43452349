//! Numbers of spawns in captured and committed states, which do not roll back.

/// Numbers of spawns in the last captured and in the last committed state.
#[derive(Clone, Copy)]
pub struct SpawnCounts {
    pub(super) captured: u64,
    pub(super) committed: u64,
}

impl SpawnCounts {
    /// No spawns.
    pub const NONE: SpawnCounts = SpawnCounts {
        captured: 0,
        committed: 0,
    };
}
