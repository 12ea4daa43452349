//! Message about a process that was killed because memory was exhausted.

use crate::say::say;
use std::sync::Once;
use understudy_catalogue::message;
use understudy_formats::cgroup::Groups;
use understudy_numbers::ProcessNumber;

/// Reports once that a process was killed because memory was exhausted, with the limit.
pub fn report_memory_kill(number: ProcessNumber) {
    static ONCE: Once = Once::new();
    let cause = || match Groups::own().and_then(|groups| groups.limit()) {
        Some(limit) => format!(
            "its control group {} is limited to {} MiB; raise the limit (--memory of a container, \
             --mem of a batch system, MemoryMax=)",
            limit.group.display(),
            limit.bytes >> 20
        ),
        None => "this node has none left; start fewer ranks here".into(),
    };
    ONCE.call_once(|| {
        say(message::killed_for_memory(number, cause()));
    });
}
