//! What a checkpoint under way may use of this process's copies.

use super::copy::Copy;
use super::legacy::Legacy;
use understudy_policy::habit::Habit;

use understudy_image::helper::Helper;
use understudy_image::store::PageStore;

/// What a checkpoint works with.
pub struct Hands<'a> {
    /// Room for pages.
    pub store: &'a mut PageStore,
    pub own: &'a Copy,
    /// What is kept of the partners, of that epoch.
    pub partners: &'a [Copy],
    /// Makes checksums and parity.
    pub helper: &'a Helper,
    /// What is known of the holders' own pages, by layer.
    pub habits: &'a mut [Habit],
    /// What outlives this process.
    pub legacy: Option<&'a mut Legacy>,
}
