//! Parts of this process's replicas that a pending checkpoint uses.

use super::persistent_store::PersistentStore;
use super::replica::Replica;
use understudy_policy::query_policy::QueryHistory;

use understudy_image::helper::Helper;
use understudy_image::store::PageStore;

/// Parts of the replicas that a checkpoint needs.
pub struct CheckpointParts<'a> {
    /// Memory for pages.
    pub store: &'a mut PageStore,
    pub own: &'a Replica,
    /// Replicas of other workers, of the committed epoch.
    pub stored: &'a [Replica],
    /// Thread that computes checksums and parity.
    pub helper: &'a Helper,
    /// Layers (`1 << layer`) whose buddy receives the whole image.
    pub whole_layers: u64,
    /// Results of past queries to the buddies, by layer.
    pub query_histories: &'a mut [QueryHistory],
    /// Persistent replica store.
    pub persistent_store: Option<&'a mut PersistentStore>,
}
