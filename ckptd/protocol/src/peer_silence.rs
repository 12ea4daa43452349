//! Decision about a peer that is silent: a node, a guardian or a node manager.

use crate::{DOUBT_TIMEOUT, Doubt, SilenceLimits};
use bincode::{Decode, Encode};
use std::time::Duration;

/// Silence of a node that is reported to the user.
const NODE_NOTICE: Duration = Duration::from_secs(3);
/// Silence of a guardian or of its manager that is reported to the user.
const GUARDIAN_NOTICE: Duration = Duration::from_secs(10);
/// Lateness of an update beyond which this process, and maybe its machine, was not running.
const MAX_LATENESS: Duration = Duration::from_millis(500);
/// Largest part of the wait after which a silence is reported.
const NOTICE_PART: u32 = 2;
/// Number of heartbeats of a guardian in the silence that is reported.
const BEATS_PER_NOTICE: u32 = 2;

/// A change of a peer's silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum SilenceChange {
    /// The peer does not answer any more.
    Began,
    /// The peer has answered after this time.
    Ended(Duration),
}

/// Time limits of the connection between a guardian and the manager of its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuardianLimits {
    /// Silence after which a peer counts as lost.
    pub wait: Duration,
    notice: Duration,
}

impl GuardianLimits {
    /// Returns the limits with this wait (UNDERSTUDY_NODE_TIMEOUT).
    pub fn new(wait: Duration) -> GuardianLimits {
        let notice = GUARDIAN_NOTICE.min(wait / NOTICE_PART);
        GuardianLimits { wait, notice }
    }

    /// Returns the time between two heartbeats.
    pub fn beat_interval(self) -> Duration {
        self.notice / BEATS_PER_NOTICE
    }
}

/// State of a peer's silence, by the clock of this process.
#[derive(Debug)]
pub struct PeerSilence {
    wait: Duration,
    notice_after: Duration,
    last_message: Duration,
    /// Time at which the next update is due.
    due: Duration,
    /// Silence beyond the wait, less [`DOUBT_TIMEOUT`].
    loss: Doubt,
    /// Silence beyond `notice_after`.
    notice: Doubt,
    /// True if the silence was reported.
    is_noticed: bool,
}

impl PeerSilence {
    /// Returns the state of a node that has just connected.
    pub fn of_node(limits: SilenceLimits, now: Duration) -> PeerSilence {
        PeerSilence::new(limits.wait(), NODE_NOTICE, now)
    }

    /// Returns the state of a guardian, or of its manager, that has just connected.
    pub fn on_node(limits: GuardianLimits, now: Duration) -> PeerSilence {
        PeerSilence::new(limits.wait, limits.notice, now)
    }

    fn new(wait: Duration, notice_after: Duration, now: Duration) -> PeerSilence {
        PeerSilence {
            wait,
            notice_after,
            last_message: now,
            due: now + wait,
            loss: Doubt::default(),
            notice: Doubt::default(),
            is_noticed: false,
        }
    }

    /// Updates the state; `has_message` is true if a message has been received since.
    ///
    /// Time does not count as silence if this process was not running: a peer that answers
    /// heartbeats has had none to answer.
    pub fn update(&mut self, now: Duration, has_message: bool) -> Option<SilenceChange> {
        let late = now.saturating_sub(self.due);
        if late > MAX_LATENESS {
            self.last_message += late;
        }
        let silence = self.silence(now);
        if has_message {
            self.last_message = now;
        }
        let silence_left = self.silence(now);
        self.loss
            .update(now, silence_left >= self.loss_doubted_at());
        self.notice.update(now, silence_left >= self.notice_after);
        let change = match (self.is_noticed, has_message) {
            (true, true) => Some(SilenceChange::Ended(silence)),
            (false, false) if self.notice.is_over() => Some(SilenceChange::Began),
            _ => None,
        };
        self.is_noticed ^= change.is_some();
        self.due = now + self.limit(now);
        change
    }

    fn loss_doubted_at(&self) -> Duration {
        self.wait.saturating_sub(DOUBT_TIMEOUT)
    }

    /// Returns the time since the last message.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last_message)
    }

    /// True if the peer counts as lost: its silence has reached the wait.
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
            false => loss.min(
                self.notice
                    .limit(now)
                    .unwrap_or_else(|| at(self.notice_after)),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(60);
    const START: Duration = Duration::from_secs(1000);

    fn node() -> PeerSilence {
        PeerSilence::of_node(SilenceLimits::new(WAIT), START)
    }

    /// Updates a silent node until `until`, as often as its limit demands.
    fn wait(node: &mut PeerSilence, from: Duration, until: Duration) -> Vec<SilenceChange> {
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

    /// The user has suspended the job, and the peer continues later than this process.
    #[test]
    fn time_in_which_this_process_is_stopped_is_no_silence() {
        let mut manager = PeerSilence::on_node(GuardianLimits::new(WAIT), START);
        wait(&mut manager, START, START + Duration::from_secs(8));
        let suspended = START + WAIT * 10;
        let changes = wait(&mut manager, suspended, suspended + Duration::from_secs(20));
        assert_eq!(changes, [SilenceChange::Began]);
        assert!(!manager.is_lost());
        wait(&mut manager, suspended, suspended + WAIT * 2);
        assert!(manager.is_lost());
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

    /// A guardian sends a heartbeat before its silence is reported, also with a short wait.
    #[test]
    fn a_heartbeat_precedes_the_report_and_the_report_the_loss() {
        for wait in [5, 60, 3600].map(Duration::from_secs) {
            let limits = GuardianLimits::new(wait);
            assert!(limits.beat_interval() < limits.notice);
            assert!(limits.notice + DOUBT_TIMEOUT < limits.wait);
        }
        assert_eq!(GuardianLimits::new(WAIT).notice, GUARDIAN_NOTICE);
    }
}
