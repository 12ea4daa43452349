//! A node's connection to the leader of its job on another node.

use crate::messages::{
    Doubt, HEARTBEAT_INTERVAL, LEASE_TIMEOUT, LeaderToNode, Link, NodeToLeader, Order, Report,
};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};
use understudy_sockets::{Registry, Source};
use understudy_wire::io::Interest;

pub struct Follower {
    link: Source<Link>,
    /// Times of the heartbeats that were not returned yet.
    sent: VecDeque<Instant>,
    /// Number of the first heartbeat in `sent`.
    first_unreturned: u64,
    /// Time of the last heartbeat, returned or not.
    beat_at: Option<Instant>,
    /// Time when the last returned heartbeat was sent.
    ///
    /// The leader has received that heartbeat at this time or later, so it cannot have declared
    /// this node lost before this time plus the leader's timeout. The time when the heartbeat came
    /// back would prove nothing, because the heartbeat may have waited in a buffer.
    last_confirmed: Instant,
    /// Silence beyond [`LEASE_TIMEOUT`].
    doubt: Doubt,
    /// Error that has ended the connection.
    ended: Option<io::Error>,
}

impl Follower {
    /// Connects to the leader.
    ///
    /// # Errors
    /// Errors of [`Link::call`] and epoll_ctl(2).
    pub fn call(
        leader: &[String],
        token: &[u8],
        node: u32,
        host: &str,
        registry: &Registry,
    ) -> io::Result<Follower> {
        let last_confirmed = Instant::now();
        let link = Link::call(leader, token, node, host)?;
        Ok(Follower {
            link: Source::new(registry, link, Interest::READ)?,
            sent: VecDeque::new(),
            first_unreturned: 0,
            beat_at: None,
            last_confirmed,
            doubt: Doubt::default(),
            ended: None,
        })
    }

    /// Returns the reason why the leader may have declared this node lost; otherwise `None`.
    pub fn lost_reason(&self) -> Option<String> {
        if let Some(error) = &self.ended {
            return Some(format!(
                "the connection to the job's leader has ended ({error})"
            ));
        }
        self.doubt.is_over().then(|| {
            let time = self.last_confirmed.elapsed().as_secs_f64();
            format!("no message from the job's leader for {time:.1} s")
        })
    }

    /// Enables or disables polling of the connection.
    ///
    /// # Errors
    /// Errors of epoll_ctl(2).
    pub fn watch(&mut self, is_awaited: bool) -> io::Result<()> {
        let wanted = self.link.interest();
        let interest = if is_awaited { wanted } else { Interest::NONE };
        self.link.set_interest(interest)
    }

    /// Returns the time after which [`Follower::attend`] must be called.
    pub fn limit(&self) -> Duration {
        if self.lost_reason().is_some() {
            return HEARTBEAT_INTERVAL;
        }
        let beat = self.beat_at.map_or(Duration::ZERO, |last| {
            HEARTBEAT_INTERVAL.saturating_sub(last.elapsed())
        });
        let doubt = self.doubt.limit();
        beat.min(
            doubt.unwrap_or_else(|| LEASE_TIMEOUT.saturating_sub(self.last_confirmed.elapsed())),
        )
    }

    pub fn send(&mut self, report: Report) {
        self.link.get_mut().send(&NodeToLeader::Report(report));
    }

    /// Handles the connection and returns the leader's orders.
    pub fn attend(&mut self) -> Vec<Order> {
        let (received, error) = self.link.get_mut().receive();
        self.ended = self.ended.take().or(error);
        let mut orders = Vec::new();
        for message in received {
            match message {
                LeaderToNode::Order(order) => orders.push(order),
                LeaderToNode::Beat(number) => {
                    while self.first_unreturned <= number
                        && let Some(sent) = self.sent.pop_front()
                    {
                        (self.last_confirmed, self.first_unreturned) =
                            (sent, self.first_unreturned + 1);
                    }
                }
            }
        }
        self.doubt
            .update(self.last_confirmed.elapsed() >= LEASE_TIMEOUT);
        if self
            .beat_at
            .is_none_or(|last| last.elapsed() >= HEARTBEAT_INTERVAL)
        {
            let number = self.first_unreturned + self.sent.len() as u64;
            self.link.get_mut().send(&NodeToLeader::Beat(number));
            let now = Instant::now();
            self.beat_at = Some(now);
            self.sent.push_back(now);
        }
        orders
    }

    /// Number of heartbeats that were sent.
    #[cfg(test)]
    pub fn beat_count(&self) -> u64 {
        self.first_unreturned + self.sent.len() as u64
    }

    /// Waits until everything has been sent, at most `limit`.
    pub fn finish(&mut self, limit: Duration) {
        self.link.get_mut().finish(limit);
    }
}
