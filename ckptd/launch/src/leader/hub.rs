//! The leader's connections to the other nodes of its job.
//!
//! The leader returns the heartbeats of nodes, and waits for a silent node for the time of
//! UNDERSTUDY_NODE_TIMEOUT. Kernel timers of the node, which each returned heartbeat sets again,
//! kill its processes earlier ([`SilenceLimits`](understudy_protocol::SilenceLimits)). So two
//! halves of a job never run at the same time, even if a manager is stopped.

#[cfg(test)]
mod hub_tests;

use crate::messages::{GREETING, Greeting, LeaderToNode, Link, NodeToLeader, Order, Report};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use understudy_protocol::{PeerSilence, SilenceChange, SilenceLimits};
use understudy_sockets::{Ready, Registry, Source, is_other_user, listen_everywhere};
use understudy_wire::auth::{self, ProofPurpose};
use understudy_wire::io::Interest;

/// Time for which a node's processes may run after the end of its connection.
///
/// The manager and all guardians of the node are gone then, and their processes die in this time.
const DISCONNECT_TIMEOUT: Duration = Duration::from_millis(50);
/// Limit of unauthenticated connections.
const MAX_UNAUTHENTICATED: usize = 64;
/// Limit of connections that are accepted before the other connections are served.
const MAX_ACCEPTS_PER_TURN: usize = 16;

/// A change in the state of a node.
#[derive(Debug)]
pub enum NodeChange {
    /// The node has connected from the host with this name.
    Joined(String),
    /// Another manager of the node has connected in place of one that has died.
    ManagerReplaced,
    Reported(Report),
    /// The node has become silent, or has answered after a silence.
    Silence(SilenceChange),
    /// The node is lost: it was silent, or its connection had ended, for this time.
    Lost(Duration),
}

/// An unauthenticated connection.
struct UnauthenticatedPeer {
    link: Source<Link>,
    nonce: [u8; 32],
    since: Instant,
    /// Address of the host that has connected.
    address: IpAddr,
}

struct Node {
    link: Source<Link>,
    silence: PeerSilence,
    /// Time when the connection ended.
    ended: Option<Instant>,
    /// Repetition that the node has not begun.
    ///
    /// Reports of the node are out of date until then.
    awaited_repetition: Option<u32>,
}

pub struct Hub {
    listener: Source<TcpListener>,
    registry: Registry,
    token: Vec<u8>,
    limits: SilenceLimits,
    /// Start of the clock of all [`PeerSilence`].
    began: Instant,
    unauthenticated: VecDeque<UnauthenticatedPeer>,
    nodes: BTreeMap<u32, Node>,
    /// Nodes that were lost, whose managers are refused.
    lost: BTreeSet<u32>,
    /// Number of times that all nodes were ordered to report again.
    repetitions: u32,
}

impl Hub {
    /// Listens at the first free one of these ports, on all addresses.
    ///
    /// # Errors
    /// Errors of bind(2), listen(2) and epoll_ctl(2).
    pub fn new(
        token: Vec<u8>,
        limits: SilenceLimits,
        registry: &Registry,
        ports: &RangeInclusive<u16>,
    ) -> io::Result<Hub> {
        let listener = listen_everywhere(ports)?;
        listener.set_nonblocking(true)?;
        Ok(Hub {
            listener: Source::new(registry, listener, Interest::READ)?,
            registry: registry.clone(),
            token,
            limits,
            began: Instant::now(),
            unauthenticated: VecDeque::new(),
            nodes: BTreeMap::new(),
            lost: BTreeSet::new(),
            repetitions: 0,
        })
    }

    /// Returns the time limits of silent nodes.
    pub fn limits(&self) -> SilenceLimits {
        self.limits
    }

    /// # Errors
    /// Errors of getsockname(2).
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Enables or disables polling of all connections.
    ///
    /// # Errors
    /// Errors of epoll_ctl(2).
    pub fn watch(&mut self, is_awaited: bool) -> io::Result<()> {
        let interest = |interest| if is_awaited { interest } else { Interest::NONE };
        self.listener.set_interest(interest(Interest::READ))?;
        let unauthenticated = self
            .unauthenticated
            .iter_mut()
            .map(|peer| (&mut peer.link, false));
        let nodes = self.nodes.values_mut();
        let nodes = nodes.map(|node| (&mut node.link, node.ended.is_some()));
        for (link, has_ended) in unauthenticated.chain(nodes) {
            let wanted = if has_ended {
                Interest::NONE
            } else {
                link.interest()
            };
            link.set_interest(interest(wanted))?;
        }
        Ok(())
    }

    /// Returns the time after which [`Hub::attend`] must be called.
    pub fn limit(&self) -> Option<Duration> {
        let now = self.began.elapsed();
        let node_limit = |node: &Node| match node.ended {
            Some(since) => DISCONNECT_TIMEOUT.saturating_sub(since.elapsed()),
            None => node.silence.limit(now),
        };
        let greetings = self
            .unauthenticated
            .iter()
            .map(|stranger| GREETING.saturating_sub(stranger.since.elapsed()));
        self.nodes.values().map(node_limit).chain(greetings).min()
    }

    /// Handles the connections and returns the changes, in order for each node.
    ///
    /// Reads from the nodes that are `ready`, and from those whose silence must be judged: the cost
    /// of a heartbeat does not grow with the number of nodes by a system call for each node.
    pub fn attend(&mut self, ready: &Ready) -> Vec<(u32, NodeChange)> {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            match self.listener.accept() {
                Ok((stream, from)) => self.accept(stream, from.ip()),
                Err(_) => break,
            }
        }
        let mut changes = Vec::new();
        for stranger in std::mem::take(&mut self.unauthenticated) {
            changes.extend(self.authenticate(stranger));
        }
        // Messages of a new node may have been read together with its greeting.
        let new: BTreeSet<u32> = changes.iter().map(|&(number, _)| number).collect();
        let now = self.began.elapsed();
        for (&number, node) in &mut self.nodes {
            if !new.contains(&number) && !node.is_due(ready, now) {
                continue;
            }
            let news = node.receive(self.began);
            changes.extend(news.into_iter().map(|change| (number, change)));
        }
        let now = self.began.elapsed();
        for (number, node) in self.nodes.extract_if(.., |_, node| node.is_lost()) {
            self.lost.insert(number);
            changes.push((number, NodeChange::Lost(node.silent_for(now))));
        }
        changes
    }

    fn accept(&mut self, stream: TcpStream, address: IpAddr) {
        if is_other_user(&stream) {
            return log::info!("a connection of another user of this host is closed");
        }
        let (Ok(mut link), Ok(nonce)) = (Link::new(stream), auth::nonce()) else {
            return;
        };
        link.send(&Greeting::Challenge { nonce });
        let Ok(link) = Source::new(&self.registry, link, Interest::READ) else {
            return;
        };
        if self.unauthenticated.len() == MAX_UNAUTHENTICATED {
            self.make_room();
        }
        self.unauthenticated.push_back(UnauthenticatedPeer {
            link,
            nonce,
            since: Instant::now(),
            address,
        });
    }

    /// Closes the oldest unauthenticated connection of the host with the most such connections.
    ///
    /// A host that makes many connections displaces only its own connections.
    fn make_room(&mut self) {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for stranger in &self.unauthenticated {
            *counts.entry(stranger.address).or_default() += 1;
        }
        let crowded = counts.into_iter().max_by_key(|&(_, count)| count);
        let oldest = self
            .unauthenticated
            .iter()
            .position(|stranger| Some(stranger.address) == crowded.map(|(address, _)| address));
        oldest.map(|oldest| self.unauthenticated.remove(oldest));
    }

    fn authenticate(&mut self, mut stranger: UnauthenticatedPeer) -> Option<(u32, NodeChange)> {
        match stranger.link.get_mut().receive_greeting() {
            Ok(None) if stranger.since.elapsed() < GREETING => {
                self.unauthenticated.push_back(stranger);
                None
            }
            Ok(Some(Greeting::Node {
                proof,
                nonce,
                node: number,
                host,
            })) => {
                let tokens = [self.token.clone()];
                auth::verify(ProofPurpose::Node, &tokens, &stranger.nonce, &proof)?;
                if self.lost.contains(&number) {
                    return None;
                }
                let mut link = stranger.link;
                link.get_mut().survive(self.limits.wait());
                link.get_mut().send(&Greeting::Leader {
                    proof: auth::proof(ProofPurpose::Leader, &self.token, &nonce),
                    node_timeout: self.limits.wait(),
                });
                let node = Node {
                    link,
                    silence: PeerSilence::of_node(self.limits, self.began.elapsed()),
                    ended: None,
                    awaited_repetition: None,
                };
                let change = match self.nodes.insert(number, node) {
                    Some(_) => NodeChange::ManagerReplaced,
                    None => NodeChange::Joined(host),
                };
                Some((number, change))
            }
            _ => None,
        }
    }

    /// Orders all nodes except one to report again, and drops what they have reported before.
    pub fn repeat_reports(&mut self, except: u32) {
        self.repetitions += 1;
        let number = self.repetitions;
        for (_, node) in self.nodes.iter_mut().filter(|(it, _)| **it != except) {
            node.awaited_repetition = Some(number);
            node.link
                .get_mut()
                .send(&LeaderToNode::RepeatReports(number));
        }
    }

    /// Closes the connection of a node, which ends its processes.
    pub fn close(&mut self, node: u32) {
        self.nodes.remove(&node);
        self.lost.insert(node);
    }

    /// Sends an order to a node; the loss of a node is detected later.
    pub fn send(&mut self, node: u32, order: Order) {
        if let Some(node) = self
            .nodes
            .get_mut(&node)
            .filter(|node| node.ended.is_none())
        {
            node.link.get_mut().send(&LeaderToNode::Order(order));
        }
    }

    /// Waits until everything has been sent, at most `limit` for each node.
    pub fn finish(&mut self, limit: Duration) {
        self.nodes
            .values_mut()
            .for_each(|node| node.link.get_mut().finish(limit));
    }
}

impl Node {
    /// True if messages have arrived, the connection has ended, or the silence must be judged.
    fn is_due(&self, ready: &Ready, now: Duration) -> bool {
        ready.contains(&self.link) || self.link.has_ended() || self.silence.limit(now).is_zero()
    }

    fn receive(&mut self, clock: Instant) -> Vec<NodeChange> {
        if self.ended.is_some() {
            return Vec::new();
        }
        let (received, error) = self.link.get_mut().receive();
        if let Some(error) = error {
            log::info!("the connection to a node has ended: {error}");
            self.ended = Some(Instant::now());
        }
        // Read after the messages: this process may have been stopped, and the node sets its timers
        // by a heartbeat that it has sent meanwhile.
        let change = self.silence.update(clock.elapsed(), !received.is_empty());
        let mut changes = Vec::from_iter(change.map(NodeChange::Silence));
        for message in received {
            match message {
                NodeToLeader::Beat(number) => self.link.get_mut().send(&LeaderToNode::Beat(number)),
                NodeToLeader::Repeats(number) => {
                    self.awaited_repetition
                        .take_if(|awaited| *awaited == number);
                }
                NodeToLeader::Report(_) if self.awaited_repetition.is_some() => {}
                NodeToLeader::Report(report) => changes.push(NodeChange::Reported(report)),
            }
        }
        changes
    }

    /// Time since the connection ended, or since the last message on it.
    fn silent_for(&self, now: Duration) -> Duration {
        let silence = self.silence.silence(now);
        self.ended.map_or(silence, |since| since.elapsed())
    }

    fn is_lost(&self) -> bool {
        match self.ended {
            Some(since) => since.elapsed() >= DISCONNECT_TIMEOUT,
            None => self.silence.is_lost(),
        }
    }
}
