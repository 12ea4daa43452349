//! Creation of listeners and TCP connections with their addresses at the checkpoint.
//!
//! For a connection, a listener at the address of one end is needed: the program's own listener, or
//! a temporary one. The other end is then connected from its former port. Before that, addresses
//! that closed connections still occupy are released ([`super::time_wait`]). TCP_REPAIR would be
//! simpler, but requires CAP_NET_ADMIN.
#![allow(unsafe_code)]

use super::connecting::owned;
use super::endpoint::Endpoint;
use super::queues::send_all;
use super::socket::Socket;
use super::socket_options::{
    CORK, DEFER_ACCEPT, NO_DELAY, RECEIVE_BUFFER, REUSE_ADDRESS, REUSE_PORT, reset_at_close,
};
use super::{connecting, tcp, time_wait};
use crate::user::open_descriptors;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Maximum wait for an address that an exiting process still occupies.
const MAX_WAIT_FOR_ADDRESS: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Size of content that fits into any connection, whatever its buffer sizes, in bytes.
const SMALL_CONTENT: usize = 1 << 15;

/// Socket that cannot be created anew.
#[derive(Debug)]
pub struct LostSocket {
    /// Descriptor.
    pub fd: i32,
    /// Local address.
    pub address: String,
    pub why: io::Error,
}

/// Closes a descriptor whose object the program did not have at the checkpoint.
///
/// A TCP connection is reset, because otherwise the kernel keeps its addresses for a minute.
pub fn abandon(fd: i32) {
    if tcp::is_tcp(fd) {
        reset_at_close(fd);
    }
    // SAFETY: close(2) of the program's descriptor, which the program does not expect after the
    // rollback.
    unsafe { libc::close(fd) };
}

/// Makes room for the content of a connection, and disables delays of its transmission.
pub fn prepare_for_content(fd: i32, socket: &Socket) {
    CORK.write_number(fd, 0);
    NO_DELAY.write_number(fd, 1);
    let length: usize = socket.content.iter().map(Vec::len).sum();
    if length > SMALL_CONTENT {
        RECEIVE_BUFFER.write_number(fd, i32::try_from(4 * length).unwrap_or(i32::MAX));
    }
}

/// Closes the connections that wait at a listener, and restores its backlog.
///
/// At the checkpoint no connections waited.
pub fn empty_listener(fd: i32, backlog: u32) {
    while let Ok(connection) = accept(fd, Duration::ZERO) {
        drop(connection);
    }
    // SAFETY: listen(2) accesses no memory.
    unsafe { libc::listen(fd, backlog.cast_signed()) };
}

/// Accepts a connection that arrives within `timeout`.
fn accept(fd: i32, timeout: Duration) -> io::Result<OwnedFd> {
    if open_descriptors::events_within(fd, libc::POLLIN, timeout) & libc::POLLIN == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // SAFETY: accept4(2), whose new descriptor has no other owner.
    unsafe {
        owned(libc::accept4(
            fd,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        ))
    }
}

/// Creates a socket of equal kind and options.
///
/// Two options of IP sockets differ until the saved options are applied: SO_REUSEADDR permits an
/// address that a closed connection still occupies, and TCP_DEFER_ACCEPT is off.
fn create_like(socket: &Socket) -> io::Result<OwnedFd> {
    let [family, kind, protocol] = socket.kind;
    // SAFETY: socket(2), whose new descriptor has no other owner.
    let created = unsafe { owned(libc::socket(family, kind, protocol))? };
    socket.options.apply(created.as_raw_fd());
    if family != libc::AF_UNIX {
        REUSE_ADDRESS.write_number(created.as_raw_fd(), 1);
        DEFER_ACCEPT.write_number(created.as_raw_fd(), 0);
    }
    Ok(created)
}

/// Retries a bind or connect operation while the kernel keeps the address.
fn retry_while_in_use<T>(
    ports: &BTreeSet<u16>,
    mut act: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let start = Instant::now();
    loop {
        let error = match act() {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let is_in_use = error.kind() == io::ErrorKind::AddrInUse;
        if !is_in_use || start.elapsed() > MAX_WAIT_FOR_ADDRESS {
            return Err(error);
        }
        time_wait::release(ports);
        std::thread::sleep(PAUSE);
    }
}

fn listen_at(socket: &Socket, address: &Endpoint, backlog: u32) -> io::Result<OwnedFd> {
    let listener = create_like(socket)?;
    address.bind(listener.as_raw_fd())?;
    // SAFETY: listen(2) accesses no memory.
    let rc = unsafe { libc::listen(listener.as_raw_fd(), backlog.cast_signed()) };
    if rc == 0 {
        Ok(listener)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Converts an address to the format of a socket family.
fn in_family(address: &Endpoint, family: i32) -> Option<Endpoint> {
    let (ip, port) = address.ip()?;
    match (ip, family) {
        (IpAddr::V4(ip), libc::AF_INET) => Some(Endpoint::of_v4(ip, port)),
        (IpAddr::V4(ip), _) => Some(Endpoint::of_v6(ip.to_ipv6_mapped(), port)),
        (IpAddr::V6(ip), _) => Some(Endpoint::of_v6(ip, port)),
    }
}

/// Saved sockets, and those that have been created.
struct Rebuilder<'a> {
    saved: &'a BTreeMap<i32, &'a Socket>,
    missing: BTreeSet<i32>,
    created: BTreeMap<i32, OwnedFd>,
}

/// Creates the missing listeners and connections, and returns them by descriptor.
///
/// # Errors
/// Fails with the first socket that cannot be created.
pub fn rebuild(
    saved: &BTreeMap<i32, &Socket>,
    missing: &BTreeSet<i32>,
) -> Result<BTreeMap<i32, OwnedFd>, LostSocket> {
    let (missing, kept): (BTreeSet<i32>, BTreeSet<i32>) = saved
        .iter()
        .filter(|(_, socket)| socket.has_address())
        .map(|(fd, _)| *fd)
        .partition(|fd| missing.contains(fd));
    if missing.is_empty() {
        return Ok(BTreeMap::new());
    }
    kept.iter().for_each(|&fd| share_addresses(fd));
    let mut rebuilder = Rebuilder {
        saved,
        missing,
        created: BTreeMap::new(),
    };
    time_wait::release(&rebuilder.ports());
    rebuilder.create_all(
        |socket| socket.backlog.is_some(),
        Rebuilder::create_listener,
    )?;
    rebuilder.create_all(
        |socket| socket.backlog.is_none(),
        Rebuilder::create_connection,
    )?;
    Ok(rebuilder.created)
}

/// Lets a kept socket share its addresses with the sockets that are created.
fn share_addresses(fd: i32) {
    if tcp::is_tcp(fd) {
        REUSE_ADDRESS.write_number(fd, 1);
        REUSE_PORT.write_number(fd, 1);
        DEFER_ACCEPT.write_number(fd, 0);
    }
}

impl Rebuilder<'_> {
    fn ports(&self) -> BTreeSet<u16> {
        let ports = |fd| self.saved[fd].ports();
        self.missing.iter().flat_map(ports).collect()
    }

    /// Calls `create` for each missing socket that `is_wanted` selects.
    fn create_all(
        &mut self,
        is_wanted: impl Fn(&Socket) -> bool,
        create: impl Fn(&mut Self, i32) -> io::Result<()>,
    ) -> Result<(), LostSocket> {
        for fd in self.missing.clone() {
            if is_wanted(self.saved[&fd]) && !self.created.contains_key(&fd) {
                create(self, fd).map_err(|why| LostSocket {
                    fd,
                    address: self.saved[&fd]
                        .address
                        .as_ref()
                        .map_or_else(String::new, Endpoint::to_string),
                    why,
                })?;
            }
        }
        Ok(())
    }

    fn create_listener(&mut self, fd: i32) -> io::Result<()> {
        let socket = self.saved[&fd];
        if let (Some(address), Some(backlog)) = (&socket.address, socket.backlog) {
            let listen = || listen_at(socket, address, backlog);
            let listener = retry_while_in_use(&socket.ports().collect(), listen)?;
            self.created.insert(fd, listener);
        }
        Ok(())
    }

    /// Returns the listener of this process that receives connections to an end.
    ///
    /// The flag is true if other sockets may also receive these connections (SO_REUSEPORT).
    fn listener_for(&self, end: &Socket) -> Option<(i32, bool)> {
        let is_for = |listener: &Socket| {
            let addresses = listener.address.as_ref().zip(end.address.as_ref());
            listener.backlog.is_some()
                && listener.kind[0] == end.kind[0]
                && addresses.is_some_and(|(listening, target)| listening.covers(target))
        };
        let (fd, listener) = self.saved.iter().find(|(_, listener)| is_for(listener))?;
        let created = self.created.get(fd).map(AsRawFd::as_raw_fd);
        Some((created.unwrap_or(*fd), listener.options.has(REUSE_PORT)))
    }

    /// Creates both ends of the connection with one end at `fd`.
    fn create_connection(&mut self, fd: i32) -> io::Result<()> {
        let socket = self.saved[&fd];
        if let Some(address) = &socket.closed_peer {
            let created = self.create_orphan(socket, address)?;
            self.created.insert(fd, created);
            return Ok(());
        }
        let is_other_end = |(_, other): &(&i32, &&Socket)| Some(other.number) == socket.peer;
        let found = self.saved.iter().find(is_other_end);
        let (&other_fd, &other) = found.ok_or(io::ErrorKind::NotFound)?;
        let ports = socket.ports().chain(other.ports()).collect();
        let [one, two] = retry_while_in_use(&ports, || self.connect(socket, other))?;
        self.created.extend([(fd, one), (other_fd, two)]);
        Ok(())
    }

    /// Creates an end, with its content, of a connection whose other end is closed.
    fn create_orphan(&self, socket: &Socket, address: &Endpoint) -> io::Result<OwnedFd> {
        let other = Socket {
            address: Some(address.clone()),
            closed_peer: None,
            ..socket.clone()
        };
        let [end, peer] =
            retry_while_in_use(&socket.ports().collect(), || self.connect(socket, &other))?;
        prepare_for_content(end.as_raw_fd(), socket);
        prepare_for_content(peer.as_raw_fd(), &other);
        send_all(peer.as_raw_fd(), &socket.content)?;
        tcp::wait_for_arrival(peer.as_raw_fd(), end.as_raw_fd());
        Ok(end)
    }

    /// Connects two new sockets, one of which accepts the connection.
    ///
    /// An end that connected may share its port with other connections, and no listener can be
    /// created at such a port (`AddrInUse`). The saved state does not show which end connected, so
    /// both directions are tried.
    fn connect(&self, one: &Socket, two: &Socket) -> io::Result<[OwnedFd; 2]> {
        let connect_to = |acceptor, connector| match self.listener_for(acceptor) {
            Some((_, true)) => Err(io::ErrorKind::AddrInUse.into()),
            Some((listener, false)) => connect_by(listener, acceptor, connector),
            None => {
                let address = acceptor.address.as_ref().ok_or(io::ErrorKind::NotFound)?;
                let listener = listen_at(acceptor, address, 1)?;
                connect_by(listener.as_raw_fd(), acceptor, connector)
            }
        };
        match connect_to(one, two) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                connect_to(two, one).map(|[two, one]| [one, two])
            }
            result => result,
        }
    }
}

/// Connects two new sockets, and returns the accepted and the connected one.
fn connect_by(listener: i32, acceptor: &Socket, connector: &Socket) -> io::Result<[OwnedFd; 2]> {
    let (Some(to), Some(from)) = (&acceptor.address, &connector.address) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let to = in_family(to, connector.kind[0]).ok_or(io::ErrorKind::NotFound)?;
    while accept(listener, Duration::ZERO).is_ok() {}
    let connected = connecting::connect_from(|| create_like(connector), from, &to)?;
    if !tcp::wait_for_room(connected.as_raw_fd()) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    loop {
        let accepted = accept(listener, tcp::MAX_WAIT)?;
        let peer = Endpoint::peer(accepted.as_raw_fd()).and_then(|address| address.ip());
        if peer == from.ip() {
            return Ok([accepted, connected]);
        }
    }
}
