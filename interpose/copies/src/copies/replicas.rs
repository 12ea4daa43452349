//! Replicas in this process: its own, those of other workers, and the pending ones.

use super::copy::Copy;
use super::hands::Hands;
use super::legacy::{self, Legacy};
use super::pending::Pending;
use super::transfer::Transfer;
use crate::ending::fail;
use crate::fault::Lack;
use crate::{fault, sys, told, world};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_image::helper::Helper;
use understudy_image::store::PageStore;
use understudy_image::track::{TrackError, Tracker};
use understudy_job::Runtime;
use understudy_policy::habit::Habit;

/// Replicas in this process, and the means to create the next ones.
pub struct Replicas {
    /// Memory for pages.
    pub store: PageStore,
    /// Tracker of changed pages.
    pub tracker: Tracker,
    /// This rank's own last committed epoch.
    pub own: Copy,
    /// Replicas of the workers whose buddy this one is, by layer.
    pub partners: Vec<Copy>,
    pub(super) helper: Helper,
    /// Results of past deduplication queries to the buddies, by layer.
    pub(super) habits: Vec<Habit>,
    pub(super) legacy: Option<Legacy>,
    /// Failed transfers of a recovery, to whose memory the library may still write.
    pub orphans: Vec<Transfer>,
    /// Number of successive epochs that have used far less memory than allocated.
    pub(super) frugal: u32,
    pub(super) pending: Option<Pending>,
    /// Time at which the program was at the cut of the committed epoch.
    pub(super) since: Instant,
    /// Highest [`Pending::rate`] of all epochs.
    pub(super) rate: f64,
}

impl Replicas {
    /// Creates the store, the tracker and the helper thread; replicas are empty.
    pub(super) fn new(rt: &Runtime) -> Replicas {
        let (store, legacy) = legacy::new_store()
            .unwrap_or_else(|error| fail(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
        let selected = Tracker::select_where(told::config().tracking, pretended_lack())
            .unwrap_or_else(|error| fail(rt, message::TRACKING_UNAVAILABLE, &error));
        if let Some(why) = selected.fallback {
            log::info!("{}", message::pages_compared(sys::chain(&why)));
        }
        let layers = world::get(rt).redundancy.kept();
        Replicas {
            store,
            tracker: selected.tracker,
            own: Copy::default(),
            partners: (0..layers).map(|_| Copy::default()).collect(),
            habits: vec![Habit::default(); layers],
            helper: Helper::new()
                .unwrap_or_else(|error| fail(rt, message::NO_CHECKSUM_THREAD, &error)),
            legacy,
            orphans: Vec::new(),
            frugal: 0,
            pending: None,
            since: Instant::now(),
            rate: 0.0,
        }
    }

    /// Returns the pending checkpoint, and the parts of the replicas that it uses.
    pub(super) fn at_work(&mut self) -> (&mut Option<Pending>, Hands<'_>) {
        let hands = Hands {
            store: &mut self.store,
            own: &self.own,
            partners: &self.partners,
            helper: &self.helper,
            habits: &mut self.habits,
            legacy: self.legacy.as_mut(),
        };
        (&mut self.pending, hands)
    }
}

/// Returns the tracker's error that a fault test simulates for a missing kernel feature.
fn pretended_lack() -> Option<TrackError> {
    if fault::pretends(Lack::PagemapScan) {
        Some(TrackError::NoScan)
    } else if fault::pretends(Lack::Userfaultfd) {
        Some(TrackError::OpenUffd(std::io::Error::from_raw_os_error(
            libc::EPERM,
        )))
    } else {
        None
    }
}
