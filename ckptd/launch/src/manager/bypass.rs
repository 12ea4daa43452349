//! Jobs in which some processes run without understudy and others wait for them.
//!
//! Understudy may refuse only some of the ranks, for example because these ranks have a wrapper or
//! a limit that other ranks lack (`mpirun -n 1 a : -n 3 b`).

use super::node::NodeState;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_wire::line::BYPASS_FILE;

/// Interval of polling for refused processes, which send no message.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl NodeState {
    /// Returns true if a process of this node runs without understudy.
    pub(super) fn is_bypassed(&self) -> bool {
        self.directory.join(BYPASS_FILE).exists()
    }

    /// Returns the time to the next poll while processes wait for the first generation.
    pub(super) fn bypass_limit(&self) -> Option<Duration> {
        let has_processes = !(self.waiting.is_empty() && self.processes.is_empty());
        let may_wait_in_vain =
            has_processes && self.last_generation.is_none() && !self.has_given_up;
        may_wait_in_vain.then_some(POLL_INTERVAL)
    }

    /// Ends a job in which only some of the processes were refused.
    pub(super) fn end_if_partly_bypassed(&mut self) {
        if self.bypass_limit().is_some() && self.is_bypassed() {
            self.give_up(message::BYPASS_OF_SOME_RANKS.to_owned());
        }
    }
}
