//! Time limits of the connection between a node and the leader of its job.
//!
//! ```text
//!   node: a heartbeat is sent        leader: the heartbeat arrives, or later messages do
//!   │                                │
//!   ├─ leave: the manager, which     │
//!   │  runs, ends its processes      │
//!   ├─ fence: kernel timers kill     │
//!   │  all processes of the node     │
//!   │        at least 1 s            │
//!   │                                ├─ wait: the node counts as lost
//! ```
//!
//! The leader counts from a message that it has received, and so from a later moment than the
//! node, which counts from the sending of the last returned heartbeat. The order above therefore
//! holds if the clocks of both drift by less than 1 %.

use std::time::Duration;

/// Time from the kill by a node's kernel timers to its earliest loss.
const MARGIN: Duration = Duration::from_secs(1);
/// Part of the wait by which two clocks may differ at its end.
///
/// Each clock drifts by less than 1 %.
const DRIFT_PARTS: u32 = 50;
/// Time from the orderly end of a node to its kernel timers.
///
/// The time includes the doubt of the node's manager.
const LEAVE_MARGIN: Duration = Duration::from_secs(2);

/// Time limits of the connection between a node and the leader of its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SilenceLimits {
    wait: Duration,
}

impl SilenceLimits {
    /// Returns the limits for a leader that waits for a silent node for this time.
    pub fn new(wait: Duration) -> SilenceLimits {
        SilenceLimits { wait }
    }

    /// Returns the silence after which the leader counts a node as lost.
    pub fn wait(self) -> Duration {
        self.wait
    }

    /// Returns the time from a returned heartbeat to the kill of the node's processes.
    pub fn fence(self) -> Duration {
        self.wait.saturating_sub(MARGIN + self.wait / DRIFT_PARTS)
    }

    /// Returns the time from a returned heartbeat to the orderly end of the node.
    pub fn leave(self) -> Duration {
        self.fence().saturating_sub(LEAVE_MARGIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DOUBT_TIMEOUT, HEARTBEAT_INTERVAL};

    /// The fence is at least one second earlier, with clocks that drift by 1 % each.
    #[test]
    fn a_node_is_fenced_a_second_before_it_counts_as_lost() {
        for milliseconds in (5_000..3_600_000).step_by(777) {
            let limits = SilenceLimits::new(Duration::from_millis(milliseconds));
            let fenced = limits.fence().mul_f64(1.01);
            let lost = limits.wait().mul_f64(0.99);
            assert!(lost >= fenced + MARGIN, "{limits:?}: {fenced:?} {lost:?}");
            assert!(limits.leave() + DOUBT_TIMEOUT + HEARTBEAT_INTERVAL < limits.fence());
            assert!(limits.leave() > 2 * HEARTBEAT_INTERVAL);
        }
    }
}
