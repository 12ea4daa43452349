//! Threads and children of the program, brought to a standstill.

use super::program_runtime::Runtime;
use super::{UserError, kernel_aio, threads, timers, undo};

/// Stops all threads for a cut; false if the cut must be put off.
pub fn stop_threads(rt: &Runtime) -> bool {
    threads::stop(rt) && timers::are_quiet(rt)
}

/// Stops all threads, and ends what the kernel does for the program meanwhile.
pub fn stop_for_good(rt: &Runtime) -> Result<(), UserError> {
    threads::stop_for_good(rt)?;
    kernel_aio::destroy_all()
}

/// Ends children that have been started since the latest cut; none changes files any more.
///
/// All of the program's threads must be stopped.
pub fn stop_children(rt: &Runtime) {
    undo::suspend_children(rt);
    rt.children.stop();
}
