//! Processes that the kernel has killed because memory was exhausted.
//!
//! The exit status of such a process shows SIGKILL and no cause. The kernel counts the kills of
//! each control group, so a process that was ended by SIGKILL while the count of its group has
//! risen was killed for lack of memory.
//!
//! The death may be noticed up to a second after the count has risen, and a poll may come between.
//! Therefore the counts of the last two polls are stored, and the count at a death is compared with
//! the older one. Example: the stored counts are 3 and 3, a kill raises the count to 4, and the
//! next poll stores 3 and 4. The death then finds 4, which differs from the older count 3. A poll
//! later the stored counts are 4 and 4, and another SIGKILL is not attributed to that kill.

use std::cell::Cell;
use std::time::{Duration, Instant};
use understudy_formats::cgroup::ControlGroups;
use understudy_numbers::ProcessNumber;
use understudy_wire::line::{Killer, ProcessEnd};

/// Interval of polls.
///
/// A kill counts as the cause of a death for at least this time, and at most twice this time.
/// A process with much memory takes a while to end after its kill.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Counter of the kills in the control group of a guardian and its processes.
pub struct MemoryKills {
    groups: Option<ControlGroups>,
    counts: Cell<Counts>,
    last_poll: Cell<Instant>,
    /// Process that this guardian has killed last.
    killed: Cell<Option<ProcessNumber>>,
}

/// Counts of the last two polls, the older one first.
#[derive(Clone, Copy, Debug)]
struct Counts([u64; 2]);

impl Counts {
    /// Returns the counts after another poll.
    fn polled(self, count: u64) -> Counts {
        Counts([self.0[1], count])
    }

    /// True if the count has risen since the older poll.
    fn is_new(self, count: u64) -> bool {
        count != self.0[0]
    }
}

impl MemoryKills {
    /// Starts to count.
    pub fn new() -> MemoryKills {
        let groups = ControlGroups::own();
        let known = groups.as_ref().map_or(0, ControlGroups::kills);
        MemoryKills {
            groups,
            counts: Cell::new(Counts([known; 2])),
            last_poll: Cell::new(Instant::now()),
            killed: Cell::new(None),
        }
    }

    /// Polls the count, and returns the time until the next poll.
    ///
    /// `None` without a control group.
    pub fn poll(&self) -> Option<Duration> {
        let groups = self.groups.as_ref()?;
        let age = self.last_poll.get().elapsed();
        if age < POLL_INTERVAL {
            return Some(POLL_INTERVAL - age);
        }
        self.counts.set(self.counts.get().polled(groups.kills()));
        self.last_poll.set(Instant::now());
        Some(POLL_INTERVAL)
    }

    /// Records that the guardian kills this process itself.
    pub fn except(&self, number: ProcessNumber) {
        self.killed.set(Some(number));
    }

    /// Sets the killer of a process that was killed because memory was exhausted.
    pub fn explain(&self, ended: &mut ProcessEnd) {
        let ProcessEnd::Killed { number, signal, by } = ended else {
            return;
        };
        let Some(groups) = &self.groups else { return };
        let kills = groups.kills();
        let is_own = self.killed.get() == Some(*number);
        if is_own || *signal != libc::SIGKILL || !self.counts.get().is_new(kills) {
            return;
        }
        self.counts.set(Counts([kills; 2]));
        *by = Killer::OutOfMemory;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_counts_for_one_or_two_polls() {
        let before = Counts([3; 2]);
        assert!(!before.is_new(3) && before.is_new(4));
        // The poll came between the kill and the death.
        let polled = before.polled(4);
        assert!(polled.is_new(4));
        assert!(!polled.polled(4).is_new(4), "an old kill");
    }
}
