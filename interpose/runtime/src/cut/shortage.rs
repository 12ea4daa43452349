//! Cuts without a checkpoint, because the replicas do not fit into memory.

use crate::Runtime;
use crate::headroom;
use crate::protection;
use crate::{checkpoint_watchdog, copies, schedule, system_calls, world};
use std::sync::Once;
use std::time::Instant;
use understudy_catalogue::message;
use understudy_image::PAGE_SIZE;
use understudy_numbers::Epoch;
use understudy_policy::cut_agreement::ProtectionLoss;
use understudy_policy::memory_demand::MemoryShortage;

/// Remedies for the user.
const REMEDY: &str = "raise the limit (--memory of a container, --mem of a batch system, \
                      MemoryMax=), start fewer ranks here, or keep less in \
                      replicas (UNDERSTUDY_COPIES=xor:4)";

/// Continues without a checkpoint, in all workers.
///
/// Without an earlier checkpoint, or if the job must stop for want of memory, protection ends.
pub(super) fn skip(rt: &Runtime, shortage: &MemoryShortage) {
    checkpoint_watchdog::suspend();
    let earlier = copies::committed_epoch(rt);
    // Without the first checkpoint the job was never protected.
    let loss = match earlier {
        Epoch::NONE => ProtectionLoss::Unsaved,
        _ => ProtectionLoss::Memory,
    };
    let gives_up = earlier == Epoch::NONE || protection::stops_for_memory();
    if shortage.reporter == world::worker(rt) {
        report(shortage, earlier, gives_up.then_some(loss));
    }
    if gives_up {
        protection::give_up_protection(rt, loss);
    } else {
        schedule::state(rt).last = Some(Instant::now());
    }
}

fn report(shortage: &MemoryShortage, earlier: Epoch, lost: Option<ProtectionLoss>) {
    static ONCE: Once = Once::new();
    let mib = |pages: u64| (pages * PAGE_SIZE as u64) >> 20;
    let why = message::checkpoint_too_large(
        earlier.next(),
        mib(shortage.needed),
        mib(shortage.free),
        headroom::tightest(),
    )
    .to_string();
    if let Some(loss) = lost {
        protection::report_loss(&format!("{why}; {REMEDY}"), loss);
    } else {
        ONCE.call_once(|| {
            system_calls::print_message(message::no_new_checkpoints(why, earlier, REMEDY));
        });
    }
}

/// Returns the reason if replicas were released between two cuts.
pub(super) fn lost_copies() -> Option<String> {
    let cause = headroom::cause()?;
    Some(message::replicas_discarded(cause, REMEDY).to_string())
}
