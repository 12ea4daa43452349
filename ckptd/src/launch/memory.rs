//! Processes that the kernel has killed for want of memory.

use crate::cgroup::Groups;
use crate::line::{Ended, Killer};
use std::cell::Cell;
use std::sync::Once;
use understudy_numbers::ProcessNumber;

/// Counts the kills in the control group of a guardian and its processes.
pub struct MemoryKills {
    groups: Option<Groups>,
    known: Cell<u64>,
    /// The process that this guardian has killed last.
    killed: Cell<Option<ProcessNumber>>,
}

impl MemoryKills {
    /// Counts from now on.
    pub fn new() -> MemoryKills {
        let groups = Groups::own();
        let known = groups.as_ref().map_or(0, Groups::kills);
        MemoryKills {
            groups,
            known: Cell::new(known),
            killed: Cell::new(None),
        }
    }

    /// The guardian kills this process itself.
    pub fn except(&self, number: ProcessNumber) {
        self.killed.set(Some(number));
    }

    /// Finds out whether a process was killed for want of memory.
    pub fn explain(&self, ended: &mut Ended) {
        let Ended::Killed { number, signal, by } = ended else {
            return;
        };
        let Some(groups) = &self.groups else { return };
        let kills = groups.kills();
        if self.killed.get() == Some(*number)
            || *signal != libc::SIGKILL
            || kills == self.known.get()
        {
            return;
        }
        self.known.set(kills);
        *by = Killer::Memory;
    }
}

/// Reports once that a process was killed for want of memory, with the limit.
pub fn report(number: ProcessNumber) {
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
        say!(
            "understudy: the kernel has killed process {number} for want of memory: {}, or keep \
             less in copies (UNDERSTUDY_STATIC, UNDERSTUDY_COPIES)",
            cause()
        );
    });
}
