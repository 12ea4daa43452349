//! Message about a process that was killed because memory was exhausted.

use crate::print_message::print_message;
use std::sync::Once;
use understudy_catalogue::message;
use understudy_formats::cgroup::ControlGroups;
use understudy_numbers::ProcessNumber;

/// Reports once that a process was killed because memory was exhausted, with the limit.
pub fn report_memory_kill(number: ProcessNumber) {
    static ONCE: Once = Once::new();
    let cause = || match ControlGroups::own().and_then(|groups| groups.limit()) {
        Some(limit) => format!(
            "its control group {} is limited to {} MiB; raise the limit (--memory of a container, \
             --mem of a batch system, MemoryMax=)",
            limit.group.display(),
            limit.bytes >> 20
        ),
        None => "this node has none left; start fewer ranks here".into(),
    };
    ONCE.call_once(|| {
        print_message(message::killed_for_memory(number, cause()));
    });
}
