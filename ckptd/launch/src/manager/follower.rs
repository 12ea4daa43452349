//! A node's connection to the leader of its job on another node.

use super::node_fence::NodeFence;
use crate::Error;
use crate::messages::{
    LeaderToNode, Link, ManagerDuty, NodeToLeader, Order, Report, encode_message,
};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use understudy_protocol::{HEARTBEAT_INTERVAL, NodeLease, SilenceLimits};
use understudy_sockets::{Registry, Source};
use understudy_wire::io::Interest;

pub struct Follower {
    link: Source<Link>,
    lease: NodeLease,
    /// Kernel timers of the node; `None` until they are started.
    fence: Option<NodeFence>,
    /// Error that has ended the connection.
    ended: Option<io::Error>,
    /// Number of the repetition of all reports that the leader requests.
    repetition: Option<u32>,
}

/// State that guardians keep for another manager of their node.
pub struct SuccessorState {
    /// Message with the duty.
    pub duty: Vec<u8>,
    /// The connection to the leader, and the pipe to the keeper of the fence.
    ///
    /// The connection must not end before another manager has connected.
    pub descriptors: Vec<OwnedFd>,
}

/// Returns the time since the machine was started, which includes times of suspension.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
        let began = now();
        let (link, node_timeout) = Link::call(leader, token, node, host)?;
        Ok(Follower {
            link: Source::new(registry, link, Interest::READ)?,
            lease: NodeLease::new(SilenceLimits::new(node_timeout), began),
            fence: None,
            ended: None,
            repetition: None,
        })
    }

    /// Sets the timers that kill the node's processes if the leader returns no heartbeats.
    ///
    /// `keeper` is the pipe to the keeper of the fence, if an earlier manager has started it.
    ///
    /// # Errors
    /// Errors of [`NodeFence::start`] and [`NodeFence::of_keeper`].
    pub fn set_fence(&mut self, directory: &Path, keeper: Option<OwnedFd>) -> Result<(), Error> {
        let deadline = self.lease.fence_at();
        self.fence = Some(match keeper {
            None => NodeFence::start(directory, deadline)?,
            Some(keeper) => NodeFence::of_keeper(directory, keeper, deadline)?,
        });
        Ok(())
    }

    /// Returns what guardians keep for the next manager of the node.
    ///
    /// # Errors
    /// Errors of copying descriptors.
    pub fn successor_state(&self, duty: &ManagerDuty) -> Result<SuccessorState, Error> {
        let failed = || Error::system("a copy of a descriptor");
        let fence = self.fence.as_ref().map(NodeFence::keeper);
        let descriptors = [Some(self.link.as_fd()), fence].into_iter().flatten();
        let descriptors: io::Result<_> = descriptors.map(|it| it.try_clone_to_owned()).collect();
        Ok(SuccessorState {
            duty: encode_message(duty).map_err(failed())?,
            descriptors: descriptors.map_err(failed())?,
        })
    }

    /// Stops the timers: guardians were ordered to exit, and the leader may be gone.
    pub fn stop_fence(&mut self) {
        if let Some(fence) = &mut self.fence {
            fence.stop();
        }
    }

    /// Returns the reason why the leader may have declared this node lost; otherwise `None`.
    pub fn lost_reason(&self) -> Option<String> {
        if let Some(error) = &self.ended {
            return Some(format!(
                "the connection to the job's leader has ended ({error})"
            ));
        }
        self.lease.is_over().then(|| {
            let time = self.lease.silence(now()).as_secs_f64();
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
        match self.lost_reason() {
            Some(_) => HEARTBEAT_INTERVAL,
            None => self.lease.limit(now()),
        }
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
                LeaderToNode::RepeatReports(number) => {
                    // The orders before it concern processes as they were reported before.
                    orders.clear();
                    self.repetition = Some(number);
                }
                LeaderToNode::Beat(number) => self.lease.note_returned(number),
            }
        }
        let now = now();
        self.lease.update(now);
        if let Some(fence) = &mut self.fence {
            fence.extend(self.lease.fence_at());
        }
        if let Some(number) = self.lease.next_beat(now) {
            self.link.get_mut().send(&NodeToLeader::Beat(number));
        }
        orders
    }

    /// Returns true if all reports are to be repeated, once for each request.
    ///
    /// Later reports count as repeated ones.
    pub fn begin_repetition(&mut self) -> bool {
        let number = self.repetition.take();
        if let Some(number) = number {
            let message = NodeToLeader::Repeats(number);
            self.link.get_mut().send(&message);
        }
        number.is_some()
    }

    /// Number of heartbeats that were sent.
    #[cfg(test)]
    pub fn beat_count(&self) -> u64 {
        self.lease.beat_count()
    }

    /// Waits until everything has been sent, at most `limit`.
    pub fn finish(&mut self, limit: Duration) {
        self.link.get_mut().finish(limit);
    }
}
