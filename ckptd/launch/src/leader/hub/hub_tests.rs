//! Tests of the connections between a leader and nodes.

use super::*;
use crate::manager::Follower;
use std::net::Ipv4Addr;
use understudy_messages::JobOrder;
use understudy_protocol::HEARTBEAT_INTERVAL;
use understudy_sockets::Poller;

const TOKEN: &[u8] = b"a token of some length";
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

fn hub() -> (Poller, Hub) {
    let poller = Poller::new().expect("a poller");
    let limits = SilenceLimits::new(NODE_TIMEOUT);
    let hub = Hub::new(TOKEN.to_vec(), limits, poller.registry(), &(0..=0)).expect("a socket");
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
            assert!(hub.attend(&Ready::default()).is_empty());
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
    hub.attend(&Ready::default());
    let many: Vec<TcpStream> = (0..MAX_UNAUTHENTICATED * 2)
        .map(|_| {
            let one = stranger(&hub, [127, 0, 0, 1]);
            hub.attend(&Ready::default());
            one
        })
        .collect();
    assert_eq!(hub.unauthenticated.len(), MAX_UNAUTHENTICATED);
    assert!(!is_closed(&other));
    let closed = many.iter().filter(|it| is_closed(it)).count();
    assert_eq!(closed, MAX_UNAUTHENTICATED + 1);
    assert!(hub.limit().is_some_and(|limit| limit <= GREETING));
}

/// Returns the changes after at most this wait.
fn attend(hub: &mut Hub, poller: &mut Poller, wait: Duration) -> Vec<(u32, NodeChange)> {
    hub.watch(true).expect("sockets");
    hub.attend(&poller.wait(Some(wait)).expect("a poller"))
}

/// Returns the first changes within a second.
fn changes(hub: &mut Hub, poller: &mut Poller) -> Vec<(u32, NodeChange)> {
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        let changes = attend(hub, poller, Duration::from_millis(10));
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
    // A node that is not ready is not read.
    std::thread::sleep(Duration::from_millis(10));
    assert!(hub.attend(&Ready::default()).is_empty());
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

/// Another manager of a node connects while the earlier connection is still open.
///
/// Reports that other nodes have sent before the request to repeat them are dropped.
#[test]
fn a_manager_may_replace_the_one_of_its_node_but_not_that_of_a_lost_node() {
    let (mut poller, mut hub) = hub();
    let address = [format!("localhost:{}", hub.port().expect("bound"))];
    let own = Poller::new().expect("a poller");
    let call = |hub: &mut Hub, poller: &mut Poller, node: u32| {
        let (address, registry) = (address.clone(), own.registry().clone());
        let called = move || Follower::call(&address, TOKEN, node, "n", &registry);
        let called = std::thread::spawn(called);
        let seen = changes(hub, poller);
        (called.join().expect("no panic"), seen)
    };
    let (first, _) = call(&mut hub, &mut poller, 1);
    let (other, _) = call(&mut hub, &mut poller, 2);
    let mut other = other.expect("let in");
    let report = |rank| Report::GuardianDied {
        rank: understudy_numbers::Guardian(rank),
    };
    let (second, seen) = call(&mut hub, &mut poller, 1);
    let is_replaced = |(node, change): &(u32, NodeChange)| {
        *node == 1 && matches!(change, NodeChange::ManagerReplaced)
    };
    assert!(second.is_ok() && seen.iter().any(is_replaced), "{seen:?}");
    hub.repeat_reports(1);
    other.send(report(2));
    let mut has_begun = false;
    let mut reported = Vec::new();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(2));
        other.attend();
        if !has_begun && other.begin_repetition() {
            has_begun = true;
            other.send(report(3));
        }
        reported.extend(attend(&mut hub, &mut poller, Duration::ZERO));
    }
    let seen: Vec<_> = reported.iter().filter(|(node, _)| *node == 2).collect();
    assert!(
        matches!(&seen[..], [(2, NodeChange::Reported(last))] if *last == report(3)),
        "{seen:?}"
    );
    drop((first, second));
    hub.close(1);
    let (third, _) = call(&mut hub, &mut poller, 1);
    assert!(third.is_err(), "the manager of a lost node is served");
}

/// A node and its leader never pause; heartbeats are sent at their interval nevertheless.
///
/// Heartbeats that follow their answers at once would occupy both nodes.
#[test]
fn heartbeats_keep_their_interval() {
    let (mut poller, mut hub) = hub();
    let address = [format!("localhost:{}", hub.port().expect("bound"))];
    let registry = poller.registry().clone();
    let node = std::thread::spawn(move || Follower::call(&address, TOKEN, 1, "n1", &registry));
    while !node.is_finished() {
        attend(&mut hub, &mut poller, Duration::ZERO);
    }
    let mut node = node.join().expect("no panic").expect("let in");
    let began = Instant::now();
    while began.elapsed() < HEARTBEAT_INTERVAL * 5 / 2 {
        node.attend();
        attend(&mut hub, &mut poller, Duration::ZERO);
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
            attend(&mut hub, &mut poller, Duration::ZERO);
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
    let changes = attend(&mut hub, &mut poller, Duration::ZERO);
    assert!(changes.is_empty(), "the node has sent heartbeats");
}

/// Packets to one of the leader's networks are dropped, and another network answers.
#[test]
fn an_address_that_does_not_answer_is_left_soon() {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, listen, socket};
    let silent = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&silent, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listen(&silent, 0).expect("a socket");
    let silent = TcpListener::from(silent);
    let silent_address = silent.local_addr().expect("bound");
    // The queue is full then: the kernel drops further connections.
    let _queued = TcpStream::connect(silent_address).expect("a place in the queue");
    let (mut poller, mut hub) = hub();
    let port = hub.port().expect("bound");
    let addresses = [silent_address.to_string(), format!("[::1]:{port}")];
    let registry = poller.registry().clone();
    let began = Instant::now();
    let node = std::thread::spawn(move || Follower::call(&addresses, TOKEN, 1, "n1", &registry));
    while !node.is_finished() {
        attend(&mut hub, &mut poller, Duration::from_millis(1));
    }
    assert!(node.join().expect("no panic").is_ok());
    let time = began.elapsed();
    assert!(time > Duration::from_secs(1) && time < GREETING, "{time:?}");
}
