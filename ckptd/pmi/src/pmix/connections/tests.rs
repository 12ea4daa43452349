use super::*;
use crate::{GenerationName, Rank};
use std::io::Write;

#[path = "../../../../sockets/src/other_user.rs"]
mod other_user;

/// A server in place of libpmix, and the address of the proxy for a rank.
struct Server {
    listener: TcpListener,
    proxy_address: SocketAddr,
}

impl Server {
    fn new(connections: &Connections, owner: &Owner) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = |value: String| (OsString::from("ADDRESS"), OsString::from(value));
        let mut variables = vec![
            address(format!("job.1.0;tcp4://127.0.0.1:{port};5.0")),
            address(format!("job.1.0;tcp4://127.0.0.1:{port}")),
            address("tcp4://".into()),
        ];
        let others = variables[2].clone();
        assert!(
            connections
                .redirect_variables(owner, &mut variables)
                .unwrap()
        );
        let (front, proxy_address, rest) = split_address(&variables[0].1).unwrap();
        assert_eq!((front, rest), ("job.1.0;", ";5.0"));
        assert_eq!(
            split_address(&variables[1].1),
            Some((front, proxy_address, ""))
        );
        assert_ne!(proxy_address.port(), port);
        assert_eq!(variables[2], others);
        Server {
            listener,
            proxy_address,
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy_address).unwrap()
    }

    fn is_called(&self) -> bool {
        self.listener.set_nonblocking(true).unwrap();
        let is_called = self.listener.accept().is_ok();
        self.listener.set_nonblocking(false).unwrap();
        is_called
    }
}

/// Both ends of a rank's connection through the proxy.
struct Pair {
    owner: Owner,
    client: TcpStream,
    server: TcpStream,
}

fn owner(rank: u32) -> Owner {
    (GenerationName::new("job", 1).unwrap(), Rank(rank))
}

impl Pair {
    fn new(connections: &Connections, rank: u32) -> Pair {
        let owner = owner(rank);
        let server = Server::new(connections, &owner);
        let mut client = server.connect();
        client.write_all(b"greeting").unwrap();
        let (mut server, _) = server.listener.accept().unwrap();
        let mut greeting = [0; 8];
        server.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"greeting");
        Pair {
            owner,
            client,
            server,
        }
    }

    fn is_closed(&mut self) -> bool {
        self.server.set_read_timeout(None).unwrap();
        self.server.read(&mut [0]).unwrap() == 0
    }

    /// True if nothing arrives for a while.
    fn is_open(&mut self) -> bool {
        self.server
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        self.server.read(&mut [0]).is_err()
    }
}

#[test]
fn all_data_are_passed_in_both_directions() {
    let connections = Connections::new().unwrap();
    let Pair {
        mut client,
        mut server,
        ..
    } = Pair::new(&connections, 0);
    // More bytes than a socket buffers if its other end does not read.
    let sent: Vec<u8> = (0..20_000_000u32).map(|at| (at % 251) as u8).collect();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        client.write_all(&copy).unwrap();
        let mut received = vec![0; copy.len()];
        client.read_exact(&mut received).unwrap();
        assert!(received == copy);
    });
    let mut received = vec![0; sent.len()];
    server.read_exact(&mut received).unwrap();
    assert!(received == sent);
    server.write_all(&received).unwrap();
    writing.join().unwrap();
}

/// A connection that sends nothing never reaches libpmix, even when its rank ends.
///
/// libpmix would wait for a greeting that never arrives.
#[test]
fn a_silent_connection_is_not_passed_on() {
    let connections = Connections::new().unwrap();
    let server = Server::new(&connections, &owner(0));
    drop(server.connect());
    let still = server.connect();
    let mut pair = Pair::new(&connections, 1);
    assert!(pair.is_open());
    assert!(!server.is_called());
    connections.end(&owner(0), || ());
    assert!(!server.is_called());
    drop(still);
}

/// Another user connects to a rank's port; the connection is closed, the rank's is served.
#[test]
fn a_connection_of_another_user_is_closed_at_once() {
    use other_user::{connect_as_another_user, exits_soon};
    let connections = Connections::new().unwrap();
    let server = Server::new(&connections, &owner(0));
    if let Some(other) = connect_as_another_user(server.proxy_address.port()) {
        assert!(exits_soon(other));
        assert!(!server.is_called());
    }
    let mut client = server.connect();
    client.write_all(b"greeting").unwrap();
    server.listener.accept().unwrap();
}

#[test]
fn few_connections_that_send_nothing_are_kept() {
    let connections = Connections::new().unwrap();
    let server = Server::new(&connections, &owner(0));
    let mut silent: Vec<TcpStream> = (0..MAX_SILENT_CONNECTIONS * 3)
        .map(|_| server.connect())
        .collect();
    // The last connection stays open as long as no further ones follow.
    let mut last = server.connect();
    for closed in &mut silent[..MAX_SILENT_CONNECTIONS] {
        closed.set_read_timeout(Some(CLOSE_TIMEOUT)).unwrap();
        assert_eq!(closed.read(&mut [0]).unwrap(), 0);
    }
    last.write_all(b"greeting").unwrap();
    server.listener.accept().unwrap();
    assert!(!server.is_called());
}

#[test]
fn a_finalised_connection_is_closed_at_once() {
    let connections = Connections::new().unwrap();
    for is_late in [false, true] {
        let mut pair = Pair::new(&connections, u32::from(is_late));
        if is_late {
            pair.client.shutdown(Shutdown::Both).unwrap();
            assert!(pair.is_open());
        }
        connections.finalised(pair.owner.clone());
        pair.client.shutdown(Shutdown::Both).unwrap_or_default();
        assert!(pair.is_closed());
    }
}

/// Two lost connections of a rank are closed in turn, even if libpmix sends data.
///
/// The connection of the other rank stays open.
#[test]
fn lost_ones_are_closed_one_after_the_other_at_the_end() {
    let connections = Connections::new().unwrap();
    let mut pairs = [0, 0, 1].map(|rank| Pair::new(&connections, rank));
    for pair in &pairs {
        pair.client.shutdown(Shutdown::Both).unwrap();
    }
    for pair in &mut pairs {
        pair.server.write_all(&[7; 1 << 20]).unwrap();
        assert!(pair.is_open());
    }
    let owner = pairs[0].owner.clone();
    let [mut first, mut second, mut other] = pairs;
    std::thread::scope(|scope| {
        let (closed, is_closed) = channel();
        scope.spawn(|| connections.end(&owner, move || closed.send(()).unwrap()));
        assert!(first.is_closed());
        assert!(second.is_open());
        assert!(is_closed.try_recv().is_err());
        drop(first);
        is_closed.recv().unwrap();
        assert!(second.is_closed());
        drop(second);
        is_closed.recv().unwrap();
    });
    assert!(other.is_open());
}
