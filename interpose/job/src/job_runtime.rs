//! `Runtime` of this crate.
//!
//! Contains the state of the modules, and dereferences to the `Runtime` of the crate below.

use crate::cell::{Door, runtime};
use crate::daemon::DaemonLink;
use crate::disk::DiskState;
use crate::renewal::InstanceState;
use crate::user;
use crate::world::WorldView;

runtime! {
    pub struct Runtime: user::Runtime {
        /// Workers and spares of the present MPI instance.
        pub(crate) world: WorldView = WorldView::start(),
        /// Checkpoints in files.
        pub(crate) disk: DiskState = DiskState::start(),
        /// State of this process across MPI instances.
        pub(crate) renewal: InstanceState = InstanceState::start(),
        /// Connection to the daemon.
        pub(crate) daemon: DaemonLink = DaemonLink::start(),
    }
}

/// Access for functions that lower crates call.
pub static DOOR: Door<Runtime> = Door::new();
