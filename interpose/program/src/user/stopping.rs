//! Stopping of the program's threads and children.

use super::program_runtime::Runtime;
use super::{UserError, kernel_aio, threads, timers, undo};

/// Stops all threads for a cut; returns false if the cut must be postponed.
pub fn stop_threads(rt: &Runtime) -> bool {
    threads::stop(rt) && timers::have_no_lost_expiry(rt)
}

/// Stops all threads, and destroys all contexts of kernel AIO after their requests.
pub fn stop_for_good(rt: &Runtime) -> Result<(), UserError> {
    threads::stop_for_good(rt)?;
    kernel_aio::destroy_all()
}

/// Kills the children that were started since the latest cut.
///
/// No such child changes files afterwards.
///
/// All threads of the program must be stopped.
pub fn stop_children(rt: &Runtime) {
    undo::suspend_children(rt);
    rt.children.kill_started_since_cut();
}
