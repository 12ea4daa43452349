//! End of the job in all processes.

use crate::Runtime;
use crate::abort::abort;
use std::ffi::c_int;
use std::time::Duration;

/// Delay of all processes but the first, so that the first one ends the job.
const ABORT_DELAY: Duration = Duration::from_secs(1);

/// Ends the job in all processes.
///
/// The first process has printed a message before this call.
pub fn end_together(rt: &Runtime, is_first: bool, code: c_int) -> ! {
    // If two processes aborted simultaneously, the launcher would get no exit status.
    if !is_first {
        std::thread::sleep(ABORT_DELAY);
    }
    abort(rt, code)
}
