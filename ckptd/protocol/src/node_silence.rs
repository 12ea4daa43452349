//! The leader's decision about a node that is silent.

use crate::{DOUBT_TIMEOUT, Doubt, SilenceLimits};
use std::time::Duration;

/// Silence of a node that is reported to the user.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(3);

/// A change of a node's silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SilenceChange {
    /// The node does not answer any more; the leader waits.
    Began,
    /// The node has answered after this time.
    Ended(Duration),
}

/// State of a node's silence, by the leader's clock.
#[derive(Debug)]
pub struct NodeSilence {
    limits: SilenceLimits,
    last_message: Duration,
    /// Silence beyond the limit, less [`DOUBT_TIMEOUT`].
    loss: Doubt,
    /// Silence beyond [`NOTICE_TIMEOUT`].
    notice: Doubt,
    /// True if the silence was reported.
    is_noticed: bool,
}

impl NodeSilence {
    /// Returns the state of a node that has just connected.
    pub fn new(limits: SilenceLimits, now: Duration) -> NodeSilence {
        NodeSilence {
            limits,
            last_message: now,
            loss: Doubt::default(),
            notice: Doubt::default(),
            is_noticed: false,
        }
    }

    /// Updates the state; `has_message` is true if a message has been received since.
    pub fn update(&mut self, now: Duration, has_message: bool) -> Option<SilenceChange> {
        let silence = self.silence(now);
        if has_message {
            self.last_message = now;
        }
        let silence_left = self.silence(now);
        self.loss
            .update(now, silence_left >= self.loss_doubted_at());
        self.notice.update(now, silence_left >= NOTICE_TIMEOUT);
        match (self.is_noticed, has_message) {
            (true, true) => {
                self.is_noticed = false;
                Some(SilenceChange::Ended(silence))
            }
            (false, false) if self.notice.is_over() => {
                self.is_noticed = true;
                Some(SilenceChange::Began)
            }
            _ => None,
        }
    }

    fn loss_doubted_at(&self) -> Duration {
        self.limits.wait().saturating_sub(DOUBT_TIMEOUT)
    }

    /// Returns the time since the last message.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last_message)
    }

    /// True if the node counts as lost.
    ///
    /// At least the time of [`SilenceLimits::wait`] has passed since the last message.
    pub fn is_lost(&self) -> bool {
        self.loss.is_over()
    }

    /// Returns the time until the next update.
    pub fn limit(&self, now: Duration) -> Duration {
        let at = |silence: Duration| silence.saturating_sub(self.silence(now));
        let loss = self.loss.limit(now);
        let loss = loss.unwrap_or_else(|| at(self.loss_doubted_at()));
        match self.is_noticed {
            true => loss,
            false => loss.min(self.notice.limit(now).unwrap_or_else(|| at(NOTICE_TIMEOUT))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(60);
    const START: Duration = Duration::from_secs(1000);

    fn node() -> NodeSilence {
        NodeSilence::new(SilenceLimits::new(WAIT), START)
    }

    /// Updates a silent node until `until`, as often as its limit demands.
    fn wait(node: &mut NodeSilence, from: Duration, until: Duration) -> Vec<SilenceChange> {
        let (mut now, mut changes) = (from, Vec::new());
        while now < until && !node.is_lost() {
            now = (now + node.limit(now).max(Duration::from_millis(1))).min(until);
            changes.extend(node.update(now, false));
        }
        changes
    }

    #[test]
    fn a_silent_node_is_reported_once_and_waited_for() {
        let mut node = node();
        let stalled = Duration::from_secs(30);
        assert_eq!(
            wait(&mut node, START, START + stalled),
            [SilenceChange::Began]
        );
        let now = START + stalled;
        let ended = node.update(now, true);
        assert_eq!(ended, Some(SilenceChange::Ended(stalled)));
        assert_eq!(node.update(now + Duration::from_millis(500), true), None);
        assert!(!node.is_lost());
    }

    #[test]
    fn a_node_is_lost_after_the_wait_and_soon_after() {
        let mut node = node();
        wait(&mut node, START, START + WAIT - Duration::from_millis(1));
        assert!(!node.is_lost());
        wait(&mut node, START + WAIT, START + WAIT + DOUBT_TIMEOUT / 2);
        assert!(node.is_lost());
    }

    /// The leader itself was stopped: messages of the node wait to be read.
    #[test]
    fn a_leader_that_was_stopped_does_not_misjudge_a_node() {
        let mut node = node();
        wait(&mut node, START, START + Duration::from_secs(10));
        let now = START + WAIT * 3;
        node.update(now, false);
        assert!(!node.is_lost());
        assert!(
            node.update(now + Duration::from_millis(900), true)
                .is_some()
        );
        assert!(!node.is_lost());
    }
}
