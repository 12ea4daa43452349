//! Jobs in which some processes run without understudy and others wait for them.
//!
//! A wrapper or a limit of single ranks (`mpirun -n 1 a : -n 3 b`) may refuse these alone.

use super::node::Node;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_wire::line::ASIDE;

/// Interval of polling for refused processes, which send no message.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl Node {
    /// Returns true if a process of this node runs without understudy.
    pub(super) fn is_bypassed(&self) -> bool {
        self.directory.join(ASIDE).exists()
    }

    /// Returns the time to the next poll while processes wait for the first generation.
    pub(super) fn bypass_limit(&self) -> Option<Duration> {
        let is_anyone_waiting = !(self.waiting.is_empty() && self.processes.is_empty());
        let may_wait_in_vain = is_anyone_waiting && self.begun.is_none() && !self.has_given_up;
        may_wait_in_vain.then_some(POLL_INTERVAL)
    }

    /// Ends a job in which some processes were refused and others were not.
    pub(super) fn end_if_partly_bypassed(&mut self) {
        if self.bypass_limit().is_some() && self.is_bypassed() {
            self.give_up(message::BYPASS_OF_SOME_RANKS.to_owned());
        }
    }
}
