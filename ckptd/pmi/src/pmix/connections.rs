//! Proxy between ranks and libpmix, which reports lost connections one after the other.
//!
//! OpenPMIx 4.2 to 6.1 completes a fence between ranks of one node by a separate event. If the
//! connections of two ranks are lost before that event runs, libpmix completes the fence twice, and
//! the second time uses freed memory (`lost_connection`). In a recovery many ranks disappear at
//! once. So ranks connect to this proxy, which passes on all data in both directions. The loss of a
//! rank without PMIx_Finalize is not passed on: the rank's connection to libpmix stays open until
//! [`Connections::end`], which closes one connection after the other.
//!
//! The proxy connects to libpmix only after the rank has sent something. Otherwise libpmix would
//! wait, with all other ranks, for the greeting of a rank that may be dead.
//!
//! Any local user can connect to this proxy. Connections of other users are closed at once, as far
//! as the kernel reports the owner. For each rank a few connections that have sent nothing are
//! kept.

use super::name_store::Owner;
use crate::Error;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_sockets::{Poller, Registry, Source, is_other_user};
use understudy_wire::io::{Interest, Outbox};

/// Prefixes of the addresses at which clients find libpmix.
const SCHEMES: [&str; 2] = ["tcp4://", "tcp6://"];
/// Time limit for libpmix to close a connection whose other end is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit of a rank's connections that have sent nothing.
///
/// A further connection closes the oldest.
const MAX_SILENT_CONNECTIONS: usize = 4;
/// Number of bytes that are passed on at once.
const MAX_PASSED_BYTES: usize = 1 << 16;
/// Delay after a failure to accept a connection for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(10);

/// Order to the thread of the proxy.
enum Order {
    Listen(RankListener),
    /// The rank has called PMIx_Finalize.
    ///
    /// The connection to libpmix is closed, too, when the rank closes its connection.
    Finalised(Owner),
    /// Ends one connection of a rank, and stops listening for the rank.
    ///
    /// A message is sent when libpmix has closed the connection. The sender is dropped without a
    /// message if no connection is left.
    End(Owner, Sender<()>),
    /// Ends the thread.
    Stop,
}

pub struct Connections {
    orders: Sender<Order>,
    registry: Registry,
}

impl Connections {
    /// # Errors
    /// Errors of [`Poller::new`] and of the start of a thread.
    pub fn new() -> Result<Connections, Error> {
        let (orders, received) = channel();
        let start = |poller: Poller| {
            let registry = poller.registry().clone();
            let mut proxy = ProxyThread {
                orders: received,
                poller,
                is_over: false,
                listeners: Vec::new(),
                connections: Vec::new(),
                bytes: vec![0; MAX_PASSED_BYTES],
            };
            let thread = std::thread::Builder::new().name("connections".into());
            thread.spawn(move || proxy.run())?;
            Ok(Connections { orders, registry })
        };
        Poller::new()
            .and_then(start)
            .map_err(Error::system("connections of ranks"))
    }

    /// Changes the variables by which a rank finds libpmix to the address of this proxy.
    ///
    /// Returns false if there are no such variables.
    ///
    /// # Errors
    /// Errors of bind(2).
    pub fn redirect_variables(
        &self,
        owner: &Owner,
        variables: &mut [(OsString, OsString)],
    ) -> Result<bool, Error> {
        // All variables have the same address, for clients of different versions.
        let Some(libpmix_address) = variables
            .iter()
            .find_map(|(_, value)| Some(split_address(value)?.1))
        else {
            return Ok(false);
        };
        let own = self.listen(owner, libpmix_address);
        let own = own.map_err(Error::system("a port of this host"))?;
        for (_, value) in variables {
            if let Some((front, _, rest)) = split_address(value) {
                *value = format!("{front}{}{own}{rest}", SCHEMES[0]).into();
            }
        }
        Ok(true)
    }

    fn listen(&self, owner: &Owner, libpmix_address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?;
        self.order(Order::Listen(RankListener {
            owner: owner.clone(),
            listener: Source::new(&self.registry, listener, Interest::READ)?,
            libpmix_address,
            is_ready: false,
        }));
        Ok(own)
    }

    /// Records that a rank has called PMIx_Finalize.
    pub fn finalised(&self, owner: Owner) {
        self.order(Order::Finalised(owner));
    }

    /// Closes the connections of a rank one after the other, and calls `then` after each.
    pub fn end(&self, owner: &Owner, then: impl Fn()) {
        loop {
            let (done, is_done) = channel();
            self.order(Order::End(owner.clone(), done));
            match is_done.recv_timeout(CLOSE_TIMEOUT) {
                Ok(()) => then(),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let (name, rank) = owner;
                    return log::warn!("{}", message::pmix_connection_open(rank, name));
                }
            }
        }
    }

    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
        self.registry.wake();
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.order(Order::Stop);
    }
}

/// Splits a variable's value into the text before the address, the address, and the rest.
fn split_address(value: &OsStr) -> Option<(&str, SocketAddr, &str)> {
    let value = value.to_str()?;
    let scheme = SCHEMES.into_iter().find(|scheme| value.contains(scheme))?;
    let (front, address) = value.split_once(scheme)?;
    let end = address.find([';', ',']).unwrap_or(address.len());
    let (address, rest) = address.split_at(end);
    let (host, port) = address.rsplit_once(':')?;
    let host: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
    Some((front, (host, port.parse().ok()?).into(), rest))
}

/// Listening socket for a rank.
struct RankListener {
    owner: Owner,
    listener: Source<TcpListener>,
    libpmix_address: SocketAddr,
    is_ready: bool,
}

/// State of the thread of the proxy.
struct ProxyThread {
    orders: Receiver<Order>,
    poller: Poller,
    is_over: bool,
    listeners: Vec<RankListener>,
    connections: Vec<Connection>,
    /// Buffer for the bytes that are being passed on.
    bytes: Vec<u8>,
}

impl ProxyThread {
    fn run(&mut self) {
        while !self.is_over {
            self.wait();
            while let Ok(order) = self.orders.try_recv() {
                self.execute(order);
            }
            self.accept();
            let (registry, bytes) = (self.poller.registry(), &mut self.bytes);
            self.connections
                .retain_mut(|it| !std::mem::take(&mut it.is_ready) || it.pass_on(registry, bytes));
            // A connection that cannot be polled is closed, because it would hang.
            self.connections.retain_mut(|it| it.watch().is_ok());
        }
    }

    fn accept(&mut self) {
        for entry in self.listeners.iter().filter(|entry| entry.is_ready) {
            match entry.listener.accept() {
                Ok((client, _)) if is_other_user(&client) => {
                    log::info!("a connection of another user to a rank's port is closed");
                }
                Ok((client, _)) => {
                    let registry = self.poller.registry();
                    let new = Connection::new(
                        registry,
                        entry.owner.clone(),
                        client,
                        entry.libpmix_address,
                    );
                    self.connections.extend(new.ok());
                    close_oldest_silent(&mut self.connections, &entry.owner);
                }
                Err(error) if is_temporary(&error) => {}
                // Other threads may close descriptors meanwhile.
                Err(_) => std::thread::sleep(ACCEPT_RETRY_DELAY),
            }
        }
    }

    fn wait(&mut self) {
        let ready = self.poller.wait(None).unwrap_or_default();
        for entry in &mut self.listeners {
            entry.is_ready = ready.contains(&entry.listener);
        }
        for connection in &mut self.connections {
            let ends = connection.client.iter().chain(&connection.server);
            connection.is_ready |= ends.into_iter().any(|end| ready.contains(end));
        }
    }

    fn execute(&mut self, order: Order) {
        match order {
            Order::Listen(entry) => self.listeners.push(entry),
            Order::Stop => self.is_over = true,
            Order::Finalised(owner) => {
                let own = self.connections.iter_mut().filter(|it| it.owner == owner);
                own.for_each(Connection::finalise);
            }
            Order::End(owner, done) => {
                self.listeners.retain(|entry| entry.owner != owner);
                if let Some(own) = self.connections.iter_mut().find(|it| it.owner == owner) {
                    own.end(done);
                }
            }
        }
    }
}

/// Closes the oldest of a rank's connections that have sent nothing.
///
/// At most [`MAX_SILENT_CONNECTIONS`] of them are kept.
fn close_oldest_silent(connections: &mut Vec<Connection>, owner: &Owner) {
    let is_silent = |it: &&Connection| it.server.is_none() && it.owner == *owner;
    if connections.iter().filter(is_silent).count() > MAX_SILENT_CONNECTIONS
        && let Some(oldest) = connections.iter().position(|it| is_silent(&it))
    {
        connections.remove(oldest);
    }
}

struct Connection {
    owner: Owner,
    /// Connection to the rank; `None` after the rank has closed it.
    client: Option<Source<TcpStream>>,
    libpmix_address: SocketAddr,
    /// Connection to libpmix; `None` before the rank has sent something.
    server: Option<Source<TcpStream>>,
    /// Bytes of the rank for libpmix.
    up: Outbox,
    /// Bytes of libpmix for the rank.
    down: Outbox,
    is_finalised: bool,
    is_ready: bool,
    /// Sender of the message that libpmix has closed the connection.
    done: Option<Sender<()>>,
}

fn register_stream(registry: &Registry, stream: TcpStream) -> io::Result<Source<TcpStream>> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Source::new(registry, stream, Interest::READ)
}

impl Connection {
    fn new(
        registry: &Registry,
        owner: Owner,
        client: TcpStream,
        libpmix_address: SocketAddr,
    ) -> io::Result<Connection> {
        Ok(Connection {
            owner,
            client: Some(register_stream(registry, client)?),
            libpmix_address,
            server: None,
            up: Outbox::new(MAX_PASSED_BYTES),
            down: Outbox::new(MAX_PASSED_BYTES),
            is_finalised: false,
            is_ready: true,
            done: None,
        })
    }

    /// Makes the poller wait for data to pass on, or for room for them.
    fn watch(&mut self) -> io::Result<()> {
        let interest = |from: &Outbox, to: &Outbox| Interest::new(from.is_empty(), !to.is_empty());
        let of_client = interest(&self.up, &self.down);
        let of_server = interest(&self.down, &self.up);
        for (end, interest) in [(&mut self.client, of_client), (&mut self.server, of_server)] {
            if let Some(end) = end {
                end.set_interest(interest)?;
            }
        }
        Ok(())
    }

    /// Passes on available data; returns false if the connection has ended.
    fn pass_on(&mut self, registry: &Registry, bytes: &mut [u8]) -> bool {
        if let Some(client) = &self.client
            && !pass(&mut self.up, client, self.server.as_deref(), bytes)
        {
            self.client = None;
            if self.is_finalised {
                self.close();
            }
        }
        let is_open = match &self.server {
            Some(server) => {
                let is_open = pass(&mut self.down, server, self.client.as_deref(), bytes);
                if self.client.is_none() {
                    self.down.clear();
                }
                is_open
            }
            None => self.client.is_some() && self.greet(registry),
        };
        if let Some(done) = self.done.take_if(|_| !is_open) {
            let _ = done.send(());
        }
        is_open
    }

    /// Connects to libpmix if the rank has sent something; returns false if this fails.
    fn greet(&mut self, registry: &Registry) -> bool {
        if self.up.is_empty() {
            return true;
        }
        let server = TcpStream::connect(self.libpmix_address);
        self.server = server
            .and_then(|server| register_stream(registry, server))
            .ok();
        self.server.as_deref().is_some_and(|server| {
            // Reading detects a closed connection.
            let _ = self.up.flush(server);
            true
        })
    }

    fn finalise(&mut self) {
        self.is_finalised = true;
        if self.client.is_none() {
            self.close();
        }
    }

    fn end(&mut self, done: Sender<()>) {
        self.client = None;
        self.up.clear();
        // The connection is examined at once, because libpmix may have closed it already.
        (self.is_ready, self.done) = (true, Some(done));
        self.close();
    }

    /// Closes the write side of the connection to libpmix.
    fn close(&self) {
        if let Some(server) = &self.server {
            let _ = server.shutdown(Shutdown::Write);
        }
    }
}

/// Passes on some of the available data; returns false at the end of the stream.
fn pass(
    pending: &mut Outbox,
    mut from: &TcpStream,
    to: Option<&TcpStream>,
    bytes: &mut [u8],
) -> bool {
    if pending.is_empty() {
        match from.read(bytes) {
            Ok(0) => return false,
            // An empty outbox has room for a chunk.
            Ok(length) => drop(pending.push(&bytes[..length])),
            Err(error) if is_temporary(&error) => {}
            Err(_) => return false,
        }
    }
    if let Some(to) = to {
        // Reading detects a closed connection.
        let _ = pending.flush(to);
    }
    true
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
