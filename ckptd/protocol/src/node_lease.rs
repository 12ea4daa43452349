//! A node's permission to run, which the leader renews by returning heartbeats.

use crate::{Doubt, SilenceLimits};
use std::collections::VecDeque;
use std::time::Duration;

/// Interval of a node's heartbeats.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

/// A node's permission to run, by the node's clock.
///
/// The clock must advance while the machine is suspended (CLOCK_BOOTTIME).
#[derive(Debug)]
pub struct NodeLease {
    limits: SilenceLimits,
    /// Times of the heartbeats that were not returned yet.
    sent: VecDeque<Duration>,
    /// Number of the first heartbeat in `sent`.
    first_unreturned: u64,
    /// Time of the last heartbeat, returned or not.
    beat_at: Option<Duration>,
    /// Time when the last returned heartbeat was sent.
    ///
    /// The leader has received that heartbeat at this time or later, so it cannot have declared
    /// this node lost before this time plus its wait. The time when the heartbeat came back would
    /// prove nothing, because the heartbeat may have waited in a buffer.
    last_confirmed: Duration,
    /// Silence beyond [`SilenceLimits::leave`].
    doubt: Doubt,
}

impl NodeLease {
    /// Returns the lease of a node; `last_confirmed` is the time before it connected.
    pub fn new(limits: SilenceLimits, last_confirmed: Duration) -> NodeLease {
        NodeLease {
            limits,
            sent: VecDeque::new(),
            first_unreturned: 0,
            beat_at: None,
            last_confirmed,
            doubt: Doubt::default(),
        }
    }

    /// Returns the number of the heartbeat that must be sent now, if one is due.
    pub fn next_beat(&mut self, now: Duration) -> Option<u64> {
        if self.until_beat(now) > Duration::ZERO {
            return None;
        }
        let number = self.beat_count();
        self.beat_at = Some(now);
        self.sent.push_back(now);
        Some(number)
    }

    fn until_beat(&self, now: Duration) -> Duration {
        self.beat_at.map_or(Duration::ZERO, |last| {
            HEARTBEAT_INTERVAL.saturating_sub(now.saturating_sub(last))
        })
    }

    /// Records that the leader has returned a heartbeat.
    pub fn note_returned(&mut self, number: u64) {
        while self.first_unreturned <= number
            && let Some(sent) = self.sent.pop_front()
        {
            self.last_confirmed = sent;
            self.first_unreturned += 1;
        }
    }

    pub fn update(&mut self, now: Duration) {
        let is_silent = self.silence(now) >= self.limits.leave();
        self.doubt.update(now, is_silent);
    }

    /// Returns the time since the last returned heartbeat was sent.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last_confirmed)
    }

    /// True if the manager must end the processes of the node.
    pub fn is_over(&self) -> bool {
        self.doubt.is_over()
    }

    /// Returns the time at which the kernel must kill the processes of the node.
    pub fn fence_at(&self) -> Duration {
        self.last_confirmed + self.limits.fence()
    }

    /// Returns the time until the next update.
    pub fn limit(&self, now: Duration) -> Duration {
        let leave = || self.limits.leave().saturating_sub(self.silence(now));
        let doubt = self.doubt.limit(now).unwrap_or_else(leave);
        self.until_beat(now).min(doubt)
    }

    /// Returns the number of heartbeats that were sent.
    pub fn beat_count(&self) -> u64 {
        self.first_unreturned + self.sent.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerSilence;

    const START: Duration = Duration::from_secs(50);

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Sends heartbeats for a time, of which those below `returned` return at once.
    fn beat(lease: &mut NodeLease, from: Duration, time: Duration, returned: bool) -> Duration {
        let mut now = from;
        while now < from + time && !lease.is_over() {
            if let Some(number) = lease.next_beat(now)
                && returned
            {
                lease.note_returned(number);
            }
            now += seconds(0.05);
            lease.update(now);
        }
        now
    }

    #[test]
    fn a_returned_heartbeat_counts_from_its_time_of_sending() {
        let limits = SilenceLimits::new(seconds(60.0));
        let mut lease = NodeLease::new(limits, START);
        assert_eq!(lease.fence_at(), START + limits.fence());
        assert_eq!(lease.next_beat(START + seconds(1.0)), Some(0));
        assert_eq!(lease.next_beat(START + seconds(1.2)), None);
        assert_eq!(lease.next_beat(START + seconds(1.5)), Some(1));
        // A heartbeat that comes back late proves nothing about the time since.
        lease.note_returned(0);
        assert_eq!(lease.fence_at(), START + seconds(1.0) + limits.fence());
        lease.note_returned(1);
        lease.note_returned(0);
        assert_eq!(lease.fence_at(), START + seconds(1.5) + limits.fence());
        assert_eq!(lease.beat_count(), 2);
    }

    #[test]
    fn a_stall_of_the_leader_ends_nothing() {
        for stall in [5.0, 30.0, 50.0] {
            let mut lease = NodeLease::new(SilenceLimits::new(seconds(60.0)), START);
            let now = beat(&mut lease, START, seconds(3.0), true);
            let now = beat(&mut lease, now, seconds(stall), false);
            assert!(!lease.is_over() && lease.fence_at() > now, "{stall}");
            beat(&mut lease, now, seconds(1.0), true);
            assert!(lease.fence_at() > now + seconds(50.0));
        }
    }

    /// A manager that runs ends its node in order, before the kernel does.
    #[test]
    fn a_node_without_leader_ends_before_its_fence() {
        for wait in [5.0, 6.0, 60.0, 600.0] {
            let limits = SilenceLimits::new(seconds(wait));
            let mut lease = NodeLease::new(limits, START);
            let now = beat(&mut lease, START, seconds(3.0), true);
            let end = beat(&mut lease, now, seconds(2.0 * wait), false);
            assert!(lease.is_over());
            assert!(end + HEARTBEAT_INTERVAL < lease.fence_at(), "{wait}");
        }
    }

    /// The manager was stopped, or its machine: the answers are there a moment later.
    #[test]
    fn a_node_that_was_stopped_waits_for_an_answer() {
        let limits = SilenceLimits::new(seconds(60.0));
        let mut lease = NodeLease::new(limits, START);
        let now = beat(&mut lease, START, seconds(3.0), true) + limits.leave();
        lease.update(now);
        let now = beat(&mut lease, now, seconds(0.9), false);
        assert!(!lease.is_over());
        lease.note_returned(lease.beat_count() - 1);
        beat(&mut lease, now, seconds(1.0), true);
        assert!(!lease.is_over());
    }

    /// Clocks drift, heartbeats are late, and both sides stop for a time.
    ///
    /// The node's timers fire a second before the leader counts the node as lost.
    #[test]
    fn a_node_is_never_lost_before_it_was_fenced() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..2_000 {
            let limits = SilenceLimits::new(Duration::from_millis(5_000 + random(60_000)));
            // Rates of the clocks of node and leader, in thousandths.
            let (node_rate, leader_rate) = (991 + random(18), 991 + random(18));
            let node_clock = |now: Duration| now.mul_f64(node_rate as f64 / 1000.0);
            let leader_clock = |now: Duration| now.mul_f64(leader_rate as f64 / 1000.0);
            let mut now = START;
            let mut lease = NodeLease::new(limits, node_clock(now));
            let mut silence = PeerSilence::of_node(limits, leader_clock(now));
            // The link fails in either direction at some time.
            let cut = [0, 1].map(|_| START + Duration::from_millis(random(4_000)));
            let mut on_the_way: VecDeque<(Duration, u64)> = VecDeque::new();
            let mut returning: VecDeque<(Duration, u64)> = VecDeque::new();
            while !silence.is_lost() {
                let step = if random(50) == 0 {
                    random(8_000)
                } else {
                    20 + random(80)
                };
                now += Duration::from_millis(step);
                // Each side is stopped now and then.
                if random(5) > 0 {
                    while returning.front().is_some_and(|(at, _)| *at <= now) {
                        lease.note_returned(returning.pop_front().map_or(0, |(_, it)| it));
                    }
                    let late = now + Duration::from_millis(random(700));
                    let beat = lease.next_beat(node_clock(now)).filter(|_| now < cut[0]);
                    on_the_way.extend(beat.map(|number| (late, number)));
                }
                if random(5) > 0 {
                    let mut is_any = false;
                    while on_the_way.front().is_some_and(|(at, _)| *at <= now) {
                        let number = on_the_way.pop_front().map_or(0, |(_, it)| it);
                        let late = now + Duration::from_millis(random(700));
                        is_any = true;
                        if now < cut[1] {
                            returning.push_back((late, number));
                        }
                    }
                    silence.update(leader_clock(now), is_any);
                }
            }
            let fenced = lease.fence_at().mul_f64(1000.0 / node_rate as f64);
            assert!(
                fenced + seconds(1.0) <= now,
                "{limits:?}: {fenced:?} {now:?}"
            );
        }
    }
}
