//! Sockets that only this process uses: their kinds, and their state at a cut.
#![allow(unsafe_code)]

use super::connecting::owned;
use super::endpoint::Endpoint;
use super::queues::{content, send_all};
use super::socket_options::{self, OptionValues};
use super::tcp;
use crate::user::files::diagnosis::{Diagnosis, diagnose};
use crate::user::open_descriptors::stat;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

/// Directories of sockets of name services (SSSD, Samba's winbind).
///
/// The clients in C libraries check the descriptor before each use, and reconnect if it has
/// changed.
const SERVICES: [&[u8]; 4] = [
    b"/var/lib/sss/pipes/",
    b"/run/samba/winbindd/",
    b"/var/run/samba/winbindd/",
    b"/var/lib/samba/winbindd_privileged/",
];

/// Name of the socket of a client of a name service.
pub const SERVICE: &[u8] = b"socket of a name service";

/// True for a descriptor of a client of a name service.
pub fn is_of_service(fd: i32) -> bool {
    socket_options::number(fd, libc::SO_DOMAIN) == libc::AF_UNIX
        && Endpoint::peer(fd).is_some_and(|peer| is_service(peer.name()))
}

fn is_service(address: &[u8]) -> bool {
    SERVICES
        .iter()
        .any(|directory| address.starts_with(directory))
}

/// Socket at a cut.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Socket {
    /// Inode.
    pub(super) number: u64,
    /// Inode of the other end.
    ///
    /// Zero if the other end was closed, `None` if the socket has no other end.
    pub(super) peer: Option<u64>,
    /// Family, type and protocol.
    pub(super) kind: [i32; 3],
    pub(super) options: OptionValues,
    /// Messages that wait to be read; at most one for a stream.
    pub(super) content: Vec<Vec<u8>>,
    /// Directions that were shut down: 1 for reading, 2 for writing.
    pub(super) is_shut: u8,
    /// Address of a listener or of an end of a TCP connection.
    pub(super) address: Option<Endpoint>,
    /// Address of the other end of a TCP connection, if the other end was closed.
    pub(super) closed_peer: Option<Endpoint>,
    /// Maximum number of connections that wait at a listener.
    pub(super) backlog: Option<u32>,
}

/// Sockets among which other ends are searched.
pub struct LocalSockets {
    inodes: BTreeSet<u64>,
    connections: tcp::Connections,
}

impl LocalSockets {
    /// Collects the sockets among these descriptors.
    pub fn among(descriptors: &[i32]) -> LocalSockets {
        let is_socket = |fd: &i32| socket_options::number(*fd, libc::SO_DOMAIN) >= 0;
        let sockets: Vec<i32> = descriptors.iter().copied().filter(is_socket).collect();
        let inode = |fd: &i32| stat(*fd).map(|file_stat| file_stat.st_ino);
        LocalSockets {
            inodes: sockets.iter().filter_map(inode).collect(),
            connections: tcp::Connections::among(sockets.into_iter()),
        }
    }
}

/// Role of this process in a socket.
#[derive(Clone, Copy, Debug)]
enum Role {
    New,
    /// End of a pair of UNIX sockets.
    Pair(Diagnosis),
    /// End of a TCP connection: inode and descriptor of the connection's other end.
    Connection(u64, i32),
    /// End of a TCP connection whose other end was closed.
    Orphan,
    /// Listener: number of waiting connections, and its maximum.
    Listener([u32; 2]),
    /// Socket that another process uses, or may use.
    Shared,
}

/// Returns the name of the kind of a socket (`kernel_state::DESCRIPTORS`).
pub fn kind(fd: i32, inode: u64, local: &LocalSockets) -> String {
    let is_here = |peer| local.inodes.contains(&peer);
    role(fd, inode, &local.connections, is_here).0
}

/// Returns the name of the kind, and the role of this process.
fn role(
    fd: i32,
    inode: u64,
    connections: &tcp::Connections,
    is_here: impl Fn(u64) -> bool,
) -> (String, Role) {
    let (family, (state, role)) = match socket_options::number(fd, libc::SO_DOMAIN) {
        libc::AF_UNIX => ("unix", role_of_unix(fd, inode, is_here)),
        libc::AF_INET => ("inet", role_of_inet(fd, inode, connections)),
        libc::AF_INET6 => ("inet6", role_of_inet(fd, inode, connections)),
        other => return (format!("socket:family {other}"), Role::Shared),
    };
    (format!("socket:{family}:{state}"), role)
}

fn is_listener(fd: i32) -> bool {
    socket_options::number(fd, libc::SO_ACCEPTCONN) > 0
}

fn role_of_inet(fd: i32, inode: u64, connections: &tcp::Connections) -> (&'static str, Role) {
    let own = Endpoint::own(fd);
    let is_bound = own
        .as_ref()
        .is_some_and(|address| address.name().get(..2) != Some(&[0, 0]));
    if is_listener(fd) {
        let is_restored = tcp::is_tcp(fd) && own.is_some_and(|address| address.is_on_each_host());
        return match is_restored {
            true => ("listener", Role::Listener(tcp::backlog(fd))),
            false => ("address", Role::Shared),
        };
    }
    match Endpoint::peer(fd) {
        Some(_) => match connections.other_end(fd, inode) {
            Some((peer, other)) => ("pair", Role::Connection(peer, other)),
            None if tcp::is_orphan(fd) => ("pair", Role::Orphan),
            None => ("connected", Role::Shared),
        },
        None if is_bound => ("bound", Role::Shared),
        None => ("new", Role::New),
    }
}

fn role_of_unix(fd: i32, inode: u64, is_here: impl Fn(u64) -> bool) -> (&'static str, Role) {
    let own = Endpoint::own(fd);
    let name = own.as_ref().map_or(&[][..], Endpoint::name);
    match Endpoint::peer(fd) {
        _ if is_listener(fd) && name.first() == Some(&0) => match diagnose(inode) {
            Some(found) => ("listener", Role::Listener(found.backlog)),
            None => ("other", Role::Shared),
        },
        _ if is_listener(fd) => ("path", Role::Shared),
        Some(peer) if name.is_empty() => role_of_unix_end(inode, peer.name(), is_here),
        Some(_) => ("connected", Role::Shared),
        None if !name.is_empty() => ("bound", Role::Shared),
        None => ("new", Role::New),
    }
}

fn role_of_unix_end(
    inode: u64,
    peer: &[u8],
    is_here: impl Fn(u64) -> bool,
) -> (&'static str, Role) {
    if is_service(peer) {
        return ("service", Role::Shared);
    }
    if !peer.is_empty() {
        return ("client", Role::Shared);
    }
    let is_pair = |found: &Diagnosis| found.peer == 0 || is_here(found.peer);
    match diagnose(inode).filter(is_pair) {
        Some(diagnosis) => ("pair", Role::Pair(diagnosis)),
        None => ("other", Role::Shared),
    }
}

/// Returns the reason why a socket that only this process uses cannot be saved.
pub fn objection(fd: i32, inode: u64, local: &LocalSockets) -> Option<String> {
    let is_here = |peer| local.inodes.contains(&peer);
    let why = match role(fd, inode, &local.connections, is_here).1 {
        Role::Listener([0, _]) | Role::New | Role::Shared => None,
        Role::Listener(_) => Some("connections wait at it; let the program accept them sooner"),
        Role::Connection(_, other) => tcp::objection(fd, other).or_else(|| content(fd).err()),
        Role::Pair(_) | Role::Orphan => content(fd).err(),
    };
    why.map(Into::into)
}

impl Socket {
    /// Returns the state of a socket; `None` if it cannot be saved.
    ///
    /// Sockets that other processes use, and sockets with unreadable content, cannot be saved.
    pub fn from_fd(fd: i32, inode: u64, local: &LocalSockets) -> Option<Socket> {
        let role = role(fd, inode, &local.connections, |_| true).1;
        let (peer, is_shut, backlog) = match role {
            Role::New => (None, 0, None),
            Role::Pair(found) => (Some(found.peer), found.is_shut, None),
            Role::Connection(peer, _) => (Some(peer), tcp::is_shut(fd), None),
            Role::Orphan => (Some(0), tcp::is_shut(fd), None),
            Role::Listener([_, backlog]) => (None, 0, Some(backlog)),
            Role::Shared => return None,
        };
        let has_address = backlog.is_some() || peer.is_some() && tcp::is_tcp(fd);
        Some(Socket {
            number: inode,
            peer,
            kind: [libc::SO_DOMAIN, libc::SO_TYPE, libc::SO_PROTOCOL]
                .map(|name| socket_options::number(fd, name)),
            options: OptionValues::read(fd),
            content: if peer.is_some() {
                content(fd).ok()?
            } else {
                Vec::new()
            },
            is_shut,
            address: if has_address { Endpoint::own(fd) } else { None },
            closed_peer: match role {
                Role::Orphan => Endpoint::peer(fd),
                _ => None,
            },
            backlog,
        })
    }

    /// Returns the inode.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the inode of the other end, if it is open.
    pub fn peer(&self) -> Option<u64> {
        self.peer.filter(|&peer| peer != 0)
    }

    /// True for a listener or an end of a TCP connection.
    pub fn has_address(&self) -> bool {
        self.address.is_some()
    }

    /// Returns the port of the socket, and that of its closed other end, if any.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        let addresses = [&self.address, &self.closed_peer].into_iter().flatten();
        addresses.filter_map(|address| address.ip().map(|(_, port)| port))
    }

    /// True if this socket can be changed to the state `saved`.
    ///
    /// Otherwise a socket must be created.
    pub fn can_become(&self, saved: &Socket) -> bool {
        let is_orphan = saved.peer == Some(0);
        let is_ended = is_orphan || saved.is_shut & 1 != 0;
        self.kind == saved.kind
            && (self.number, self.peer) == (saved.number, saved.peer)
            && self.is_shut & !saved.is_shut == 0
            && self.address == saved.address
            && self.closed_peer == saved.closed_peer
            && self.backlog.is_some() == saved.backlog.is_some()
            && (!is_ended || self.content == saved.content)
    }

    /// Creates a socket, or both sockets of a pair.
    ///
    /// The second descriptor is the other end of the pair; `None` for a socket without a pair, and
    /// if the other end was closed. A socket whose other end was closed is returned with its
    /// content.
    pub fn create(&self) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        let [family, kind, protocol] = self.kind;
        if self.peer.is_none() {
            // SAFETY: socket(2), whose new descriptor has no other owner.
            return unsafe { Ok((owned(libc::socket(family, kind, protocol))?, None)) };
        }
        let mut ends = [-1; 2];
        // SAFETY: socketpair(2), whose new descriptors have no other owner.
        let (one, other) = unsafe {
            libc::socketpair(family, kind, protocol, ends.as_mut_ptr());
            (owned(ends[0])?, owned(ends[1])?)
        };
        if self.peer == Some(0) {
            self.options.apply(ends[0]);
            send_all(ends[1], &self.content)?;
            return Ok((one, None));
        }
        Ok((one, Some(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::files::sockets::fill;
    use crate::user::files::sockets::queues::{EMPTY_MESSAGE, drain};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn inode(fd: i32) -> u64 {
        stat(fd).unwrap().st_ino
    }

    fn saved_socket(object: &impl AsRawFd) -> Socket {
        let fd = object.as_raw_fd();
        Socket::from_fd(fd, inode(fd), &LocalSockets::among(&[]))
            .expect("a socket that can be saved")
    }

    #[test]
    fn a_pair_is_restored_with_its_content() {
        let (one, other) = UnixDatagram::pair().unwrap();
        for message in [&b"first"[..], b"second"] {
            one.send(message).unwrap();
        }
        let saved = [saved_socket(&one), saved_socket(&other)];
        assert_eq!(saved[0].peer(), Some(saved[1].number()));
        assert_eq!(saved[1].content, [&b"first"[..], b"second"]);
        let (made, peer) = saved[0].create().unwrap();
        let peer = peer.unwrap();
        let all = [(made.as_raw_fd(), &saved[0]), (peer.as_raw_fd(), &saved[1])];
        fill(&all.into_iter().collect()).unwrap();
        assert_eq!(content(peer.as_raw_fd()).unwrap(), saved[1].content);
        // The originals are unchanged.
        assert_eq!(saved_socket(&other).content, saved[1].content);
    }

    #[test]
    fn a_socket_without_its_peer_keeps_its_content() {
        let (one, other) = UnixStream::pair().unwrap();
        send_all(one.as_raw_fd(), &[b"left behind".to_vec()]).unwrap();
        drop(one);
        let saved = saved_socket(&other);
        assert_eq!((saved.peer, saved.is_shut), (Some(0), 3));
        let (made, peer) = saved.create().unwrap();
        assert!(peer.is_none());
        assert_eq!(
            content(made.as_raw_fd()).unwrap(),
            [b"left behind".to_vec()]
        );
        assert!(saved_socket(&other).can_become(&saved));
        drain(other.as_raw_fd());
        assert!(!saved_socket(&other).can_become(&saved));
    }

    #[test]
    fn a_message_of_length_zero_is_an_objection_as_long_as_it_waits() {
        let (one, other) = UnixDatagram::pair().unwrap();
        for message in [&b"first"[..], b"", b"third"] {
            one.send(message).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(content(other.as_raw_fd()), Err(EMPTY_MESSAGE));
        }
        drain(other.as_raw_fd());
        assert_eq!(content(other.as_raw_fd()), Ok(Vec::new()));
        one.send(b"fourth").unwrap();
        assert_eq!(content(other.as_raw_fd()), Ok(vec![b"fourth".to_vec()]));
    }

    #[test]
    fn kinds_are_distinguished() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let kind = |object: &dyn AsRawFd| {
            let fd = object.as_raw_fd();
            super::kind(fd, inode(fd), &LocalSockets::among(&[fd]))
        };
        assert_eq!(kind(&listener), "socket:inet:listener");
        assert_eq!(kind(&client), "socket:inet:connected");
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(kind(&one), "socket:unix:other");
        assert_eq!(kind(&UnixDatagram::unbound().unwrap()), "socket:unix:new");
    }
}
