//! The daemon's answer to a request for spares.

use understudy_wire::spares::Lease;

/// Answer of the daemon to a request for spares, or the reason of its failure.
pub struct PlacementHint(pub(super) Result<Vec<Lease>, String>);
