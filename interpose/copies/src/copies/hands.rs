//! Parts of this process's replicas that a pending checkpoint uses.

use super::copy::Copy;
use super::legacy::Legacy;
use understudy_policy::habit::Habit;

use understudy_image::helper::Helper;
use understudy_image::store::PageStore;

/// Parts of the replicas that a checkpoint needs.
pub struct Hands<'a> {
    /// Memory for pages.
    pub store: &'a mut PageStore,
    pub own: &'a Copy,
    /// Replicas of other workers, of the committed epoch.
    pub partners: &'a [Copy],
    /// Thread that computes checksums and parity.
    pub helper: &'a Helper,
    /// Results of past queries to the buddies, by layer.
    pub habits: &'a mut [Habit],
    /// Persistent replica store.
    pub legacy: Option<&'a mut Legacy>,
}
