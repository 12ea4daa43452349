//! The leader's connections to the other nodes of its job.
//!
//! The leader returns the heartbeats of nodes, and waits for a silent node for the time of
//! UNDERSTUDY_NODE_TIMEOUT. Kernel timers of the node, which each returned heartbeat sets again,
//! kill its processes earlier ([`SilenceLimits`](understudy_protocol::SilenceLimits)). So two
//! halves of a job never run at the same time, even if a manager is stopped.

use crate::messages::{GREETING, Greeting, LeaderToNode, Link, NodeToLeader, Order, Report};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use understudy_protocol::{PeerSilence, SilenceChange, SilenceLimits};
use understudy_sockets::{Registry, Source, is_other_user};
use understudy_wire::auth::{self, ProofPurpose};
use understudy_wire::io::Interest;

/// Time for which a node's processes may run after the end of its connection.
///
/// Guardians of the node detect in this time that the manager has died.
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
}

impl Hub {
    /// Listens at any port, on all addresses.
    ///
    /// # Errors
    /// Errors of bind(2), listen(2) and epoll_ctl(2).
    pub fn new(token: Vec<u8>, limits: SilenceLimits, registry: &Registry) -> io::Result<Hub> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        listener.set_nonblocking(true)?;
        Ok(Hub {
            listener: Source::new(registry, listener, Interest::READ)?,
            registry: registry.clone(),
            token,
            limits,
            began: Instant::now(),
            unauthenticated: VecDeque::new(),
            nodes: BTreeMap::new(),
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

    /// Handles all connections and returns the changes, in order for each node.
    pub fn attend(&mut self) -> Vec<(u32, NodeChange)> {
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
        for (&number, node) in &mut self.nodes {
            let news = node.receive(self.began);
            changes.extend(news.into_iter().map(|change| (number, change)));
        }
        let now = self.began.elapsed();
        let lost = self.nodes.extract_if(.., |_, node| node.is_lost());
        changes.extend(lost.map(|(number, node)| (number, NodeChange::Lost(node.silent_for(now)))));
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
                if self.nodes.contains_key(&number) {
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
                };
                self.nodes.insert(number, node);
                Some((number, NodeChange::Joined(host)))
            }
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::Follower;
    use understudy_messages::JobOrder;
    use understudy_protocol::HEARTBEAT_INTERVAL;
    use understudy_sockets::Poller;

    const TOKEN: &[u8] = b"a token of some length";
    const NODE_TIMEOUT: Duration = Duration::from_secs(5);

    fn hub() -> (Poller, Hub) {
        let poller = Poller::new().expect("a poller");
        let limits = SilenceLimits::new(NODE_TIMEOUT);
        let hub = Hub::new(TOKEN.to_vec(), limits, poller.registry()).expect("a socket");
        (poller, hub)
    }

    /// Connects without authenticating; `from` is an address of the loopback interface.
    fn stranger(hub: &Hub, from: [u8; 4]) -> TcpStream {
        let port = hub.port().expect("bound");
        connect_from(from, port).expect("the hub listens")
    }

    fn connect_from(from: [u8; 4], port: u16) -> io::Result<TcpStream> {
        use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddrV4::new(from.into(), 0))?;
        connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        Ok(socket.into())
    }

    /// Returns true if the other side has closed this connection.
    fn is_closed(mut stream: &TcpStream) -> bool {
        use std::io::Read;
        stream.set_nonblocking(true).expect("a socket");
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                _ => return true,
            }
        }
    }

    #[test]
    fn little_is_read_of_a_peer_that_has_not_authenticated() {
        use std::io::Write;
        use understudy_wire::{HEAD_BYTES, MAX_UNAUTHENTICATED_BYTES, VERSION};
        let (_poller, mut hub) = hub();
        // Payload lengths: that of an authenticated peer, one beyond the limit, and the limit.
        for length in [
            200 << 20,
            MAX_UNAUTHENTICATED_BYTES - HEAD_BYTES + 1,
            MAX_UNAUTHENTICATED_BYTES - HEAD_BYTES,
        ] {
            let mut peer = stranger(&hub, [127, 0, 0, 1]);
            let mut frame = b"USCK".to_vec();
            frame.extend(VERSION.to_le_bytes());
            frame.extend([0; 2]);
            frame.extend((length as u32).to_le_bytes());
            frame.resize(HEAD_BYTES + length.min(MAX_UNAUTHENTICATED_BYTES) - 1, 0);
            peer.write_all(&frame).expect("sent");
            let is_within_limit = length == MAX_UNAUTHENTICATED_BYTES - HEAD_BYTES;
            for _ in 0..20 {
                assert!(hub.attend().is_empty());
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(is_closed(&peer), !is_within_limit, "{length}");
            let unread = hub
                .unauthenticated
                .iter_mut()
                .map(|it| it.link.get_mut().unread())
                .sum::<usize>();
            assert!(unread <= MAX_UNAUTHENTICATED_BYTES, "{unread}");
        }
    }

    #[test]
    fn another_user_of_the_host_is_closed_at_once() {
        use crate::other_user::{connect_as_another_user, exits_soon};
        let (mut poller, mut hub) = hub();
        if let Some(other) = connect_as_another_user(hub.port().expect("bound")) {
            assert!(changes(&mut hub, &mut poller).is_empty());
            assert!(hub.unauthenticated.is_empty());
            assert!(exits_soon(other));
        }
    }

    #[test]
    fn one_host_displaces_only_its_own_strangers() {
        let (_poller, mut hub) = hub();
        let other = stranger(&hub, [127, 0, 0, 2]);
        hub.attend();
        let many: Vec<TcpStream> = (0..MAX_UNAUTHENTICATED * 2)
            .map(|_| {
                let one = stranger(&hub, [127, 0, 0, 1]);
                hub.attend();
                one
            })
            .collect();
        assert_eq!(hub.unauthenticated.len(), MAX_UNAUTHENTICATED);
        assert!(!is_closed(&other));
        let closed = many.iter().filter(|it| is_closed(it)).count();
        assert_eq!(closed, MAX_UNAUTHENTICATED + 1);
        assert!(hub.limit().is_some_and(|limit| limit <= GREETING));
    }

    /// Returns the first changes within a second.
    fn changes(hub: &mut Hub, poller: &mut Poller) -> Vec<(u32, NodeChange)> {
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            hub.watch(true).expect("sockets");
            let _ = poller.wait(Some(Duration::from_millis(10)));
            let changes = hub.attend();
            if !changes.is_empty() {
                return changes;
            }
        }
        Vec::new()
    }

    #[test]
    fn an_authenticated_node_is_served_and_its_end_is_its_loss() {
        let (mut poller, mut hub) = hub();
        let address = [format!("localhost:{}", hub.port().expect("bound"))];
        let own = Poller::new().expect("a poller");
        let call = |token: &'static [u8]| {
            let address = address.clone();
            let registry = own.registry().clone();
            std::thread::spawn(move || Follower::call(&address, token, 4, "n4", &registry))
        };
        let stranger = call(b"a guess of the same length");
        assert!(changes(&mut hub, &mut poller).is_empty());
        assert!(stranger.join().expect("no panic").is_err());
        let node = call(TOKEN);
        let seen = changes(&mut hub, &mut poller);
        assert!(matches!(&seen[..], [(4, NodeChange::Joined(host))] if host == "n4"));
        let mut node = node.join().expect("no panic").expect("let in");
        let report = Report::GuardianDied {
            rank: understudy_numbers::Guardian(1),
        };
        node.send(report.clone());
        let seen = changes(&mut hub, &mut poller);
        assert!(matches!(&seen[..], [(4, NodeChange::Reported(reported))] if *reported == report));
        hub.send(4, Order::Job(JobOrder::End { is_good: true }));
        let reported = (0..100).find_map(|_| {
            std::thread::sleep(Duration::from_millis(2));
            node.attend().pop()
        });
        assert_eq!(reported, Some(Order::Job(JobOrder::End { is_good: true })));
        assert_eq!(node.lost_reason(), None);
        // The kernel must not give up the connection earlier than the leader.
        let given_up = rustix::net::sockopt::tcp_user_timeout(&hub.nodes[&4].link);
        assert!(given_up.is_ok_and(|time| u128::from(time) > NODE_TIMEOUT.as_millis()));
        drop(node);
        assert!(matches!(
            &changes(&mut hub, &mut poller)[..],
            [(4, NodeChange::Lost(_))]
        ));
    }

    /// A node and its leader never pause; heartbeats are sent at their interval nevertheless.
    ///
    /// Heartbeats that follow their answers at once would occupy both nodes.
    #[test]
    fn heartbeats_keep_their_interval() {
        let (poller, mut hub) = hub();
        let address = [format!("localhost:{}", hub.port().expect("bound"))];
        let registry = poller.registry().clone();
        let node = std::thread::spawn(move || Follower::call(&address, TOKEN, 1, "n1", &registry));
        while !node.is_finished() {
            hub.attend();
        }
        let mut node = node.join().expect("no panic").expect("let in");
        let began = Instant::now();
        while began.elapsed() < HEARTBEAT_INTERVAL * 5 / 2 {
            node.attend();
            hub.attend();
        }
        let most = 1 + began.elapsed().as_millis() / HEARTBEAT_INTERVAL.as_millis();
        let count = u128::from(node.beat_count());
        assert!((2..=most).contains(&count), "{count} heartbeats");
    }

    #[test]
    fn a_silent_leader_is_left_before_it_takes_the_node_for_lost() {
        let (mut poller, mut hub) = hub();
        let address = [format!("localhost:{}", hub.port().expect("bound"))];
        let registry = poller.registry().clone();
        let node = std::thread::spawn(move || Follower::call(&address, TOKEN, 1, "n1", &registry));
        assert_eq!(changes(&mut hub, &mut poller).len(), 1);
        let mut node = node.join().expect("no panic").expect("let in");
        let began = Instant::now();
        let silence = loop {
            std::thread::sleep(Duration::from_millis(50));
            node.attend();
            if began.elapsed() < Duration::from_secs(1) {
                // The leader returns heartbeats for one second.
                hub.attend();
            }
            if node.lost_reason().is_some() {
                break began.elapsed();
            }
        };
        // The node has the leader's limits. The last heartbeat was returned after one second.
        let limits = SilenceLimits::new(NODE_TIMEOUT);
        assert!(
            silence > limits.leave() && silence < limits.fence() + Duration::from_secs(1),
            "{silence:?}"
        );
        assert!(hub.attend().is_empty(), "the node has sent heartbeats");
    }
}
