//! Replicas in this process: its own, those of other workers, and the pending ones.

use super::checkpoint_parts::CheckpointParts;
use super::pending::PendingCheckpoint;
use super::persistent_store::{self, PersistentStore};
use super::preparation::Preparation;
use super::replica::Replica;
use super::transfer::Transfer;
use crate::abort::abort_with_error;
use crate::fault::MissingFeature;
use crate::{fault, mpi_devices, process_info, system_calls, world};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::pages::Tracking;
use understudy_image::helper::Helper;
use understudy_image::store::PageStore;
use understudy_image::track::{TrackError, Tracker};
use understudy_job::Runtime;
use understudy_mpi::landings;
use understudy_numbers::ProcessNumber;
use understudy_policy::query_policy::QueryHistory;

/// Replicas in this process, and the means to create the next ones.
pub struct Replicas {
    /// Dropped first, since a thread of the preparation accesses the memory of the store.
    pub(super) preparation: Preparation,
    /// Memory for pages.
    pub store: PageStore,
    /// Tracker of changed pages.
    pub tracker: Tracker,
    /// This rank's own last committed epoch.
    pub own: Replica,
    /// Replicas of the workers whose buddy this one is, by layer.
    ///
    /// A replica that a recovery has deferred is empty until the next commit.
    pub stored: Vec<Replica>,
    /// Layers (`1 << layer`) whose buddy receives the whole image with the next checkpoint.
    ///
    /// The buddy replaces a dead one and has no replica of this worker.
    pub(super) whole_layers: u64,
    pub(super) helper: Helper,
    /// Results of past deduplication queries to the buddies, by layer.
    pub(super) query_histories: Vec<QueryHistory>,
    pub(super) persistent_store: Option<PersistentStore>,
    /// Failed transfers of a recovery, to whose memory the library may still write.
    pub orphans: Vec<Transfer>,
    /// Number of successive epochs that have used far less memory than allocated.
    pub(super) low_use_epochs: u32,
    pub(super) pending: Option<PendingCheckpoint>,
    /// Time at which the program was at the cut of the committed epoch.
    pub(super) committed_at: Instant,
    /// Highest [`PendingCheckpoint::rate`] of all epochs.
    pub(super) rate: f64,
}

impl Replicas {
    /// Creates the store, the tracker and the helper thread; replicas are empty.
    pub(super) fn new(rt: &Runtime) -> Replicas {
        let (store, persistent) = persistent_store::new_store()
            .unwrap_or_else(|error| abort_with_error(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
        let tracking = tracking_for_devices(process_info::config().tracking);
        let selected = Tracker::select_with_failure(tracking, simulated_failure())
            .unwrap_or_else(|error| abort_with_error(rt, message::TRACKING_UNAVAILABLE, &error));
        let has_landings = tracking == Tracking::Landings && selected.fallback.is_none();
        landings::set_noted(has_landings && !fault::loses_landings());
        if let Some(why) = selected.fallback {
            log::info!(
                "{}",
                message::pages_compared(system_calls::error_chain(&why))
            );
        }
        let layers = world::get(rt).redundancy.images_per_worker();
        Replicas {
            preparation: Preparation::default(),
            store,
            tracker: selected.tracker,
            own: Replica::default(),
            stored: (0..layers).map(|_| Replica::default()).collect(),
            whole_layers: 0,
            query_histories: vec![QueryHistory::default(); layers],
            helper: Helper::new()
                .unwrap_or_else(|error| abort_with_error(rt, message::NO_CHECKSUM_THREAD, &error)),
            persistent_store: persistent,
            orphans: Vec::new(),
            low_use_epochs: 0,
            pending: None,
            committed_at: Instant::now(),
            rate: 0.0,
        }
    }

    /// Returns the pending checkpoint, and the parts of the replicas that it uses.
    pub(super) fn pending_and_parts(
        &mut self,
    ) -> (&mut Option<PendingCheckpoint>, CheckpointParts<'_>) {
        let parts = CheckpointParts {
            store: &mut self.store,
            own: &self.own,
            stored: &self.stored,
            helper: &self.helper,
            whole_layers: self.whole_layers,
            query_histories: &mut self.query_histories,
            persistent_store: self.persistent_store.as_mut(),
        };
        (&mut self.pending, parts)
    }
}

/// Returns the tracking that the devices which the MPI library has open permit.
///
/// The kernel does not record what a device writes. The settings of the library, which decide at
/// the start, do not name a device that the library selects by other means.
fn tracking_for_devices(chosen: Tracking) -> Tracking {
    if matches!(chosen, Tracking::Compare | Tracking::Landings) {
        return chosen;
    }
    let devices = mpi_devices::opened();
    if devices.is_empty() {
        return chosen;
    }
    if process_info::process() == ProcessNumber(0) {
        system_calls::print_message(message::fabric_compared(devices.join(", ")));
    }
    Tracking::Compare
}

/// Returns the tracker's error that a fault test simulates for a missing kernel feature.
fn simulated_failure() -> Option<TrackError> {
    if fault::is_missing(MissingFeature::PagemapScan) {
        Some(TrackError::NoScan)
    } else if fault::is_missing(MissingFeature::Userfaultfd) {
        Some(TrackError::OpenUffd(std::io::Error::from_raw_os_error(
            libc::EPERM,
        )))
    } else {
        None
    }
}
