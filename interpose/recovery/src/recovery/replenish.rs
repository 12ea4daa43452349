//! New spares for those that are used up (UNDERSTUDY_REPLENISH).
//!
//! The leader has them started, and they wait as other spares do. A daemon, if there is one, may
//! grant fewer spares than are missing.

use crate::Runtime;
use crate::{daemon, process_info, reinit, system_calls, world};
use understudy_catalogue::message;

/// Requests the start of the missing spares.
///
/// All workers call this function at the end of a recovery; the first of them acts.
pub fn replenish(rt: &Runtime) {
    let spares = reinit::spares(rt);
    let config = process_info::config();
    if world::is_first_worker(rt)
        && config.replenish
        && world::is_protected()
        && spares < config.spares
    {
        reinit::request_spares(grant(spares));
    }
}

/// Returns the number of spares to start.
///
/// The daemon decides, if there is one; otherwise all missing spares are started.
fn grant(spares: u32) -> u32 {
    let wanted = process_info::config().spares;
    let missing = wanted - spares;
    if !daemon::is_set() {
        return missing;
    }
    let count = daemon::grant_spares(spares, wanted).unwrap_or_else(|why| {
        log::info!("the daemon does not answer how many spares may be started: {why}");
        missing
    });
    if count < missing {
        system_calls::print_message(message::fewer_spares_granted(
            count,
            missing,
            spares + count,
        ));
    }
    count
}
