//! The connections between ranks and libpmix, which hears of lost ones apart from each other.
//!
//! OpenPMIx 4.2 to 6.1 completes a fence between ranks of one node by an event of its own. If it
//! finds two of them gone before that event runs, it completes the fence twice, and the second time
//! it uses what it has freed (`lost_connection`). A recovery is when many go at once. So ranks
//! connect here, and what they and libpmix say to each other is passed on. That a rank has gone
//! without a farewell (PMIx_Finalize) is not: its connection stays open on libpmix's side until
//! [`Connections::end`], which closes one after the other.
//!
//! Nor does libpmix hear of a rank before that has said something: it would wait for that with all
//! others, also for one that has died.
//!
//! Any local user can connect here. Connections of other users are closed at once, as far as the
//! kernel names the owner, and of each rank a few connections that have sent nothing are kept.

use super::name_store::Owner;
use crate::Error;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_sockets::{Poller, Registry, Source, is_foreign};
use understudy_wire::io::{Interest, Outbox};

/// How libpmix begins the addresses that clients find it by.
const SCHEMES: [&str; 2] = ["tcp4://", "tcp6://"];
/// How long libpmix may take to close a connection whose other end is closed.
const CLOSING: Duration = Duration::from_secs(10);

/// Most connections of a rank that have sent nothing yet; another one closes the oldest.
const SILENT: usize = 4;
/// Bytes that are passed on at once.
const CHUNK: usize = 1 << 16;
/// How long to wait when there are no descriptors left.
const NO_ROOM: Duration = Duration::from_millis(10);

/// What the thread that passes everything on is to do.
enum Order {
    Listen(Entry),
    /// The rank has said farewell: its connection ends when it closes it.
    Farewell(Owner),
    /// Ends a connection of a rank that expects no others. Tells when libpmix has closed it; if
    /// there is none, this is dropped.
    End(Owner, Sender<()>),
    /// Nobody has orders any more.
    Stop,
}

pub struct Connections {
    orders: Sender<Order>,
    registry: Registry,
}

impl Connections {
    /// # Errors
    /// Those of [`Poller::new`] and of the start of a thread.
    pub fn new() -> Result<Connections, Error> {
        let (orders, received) = channel();
        let start = |poller: Poller| {
            let registry = poller.registry().clone();
            let mut switch = Switch {
                orders: received,
                poller,
                is_over: false,
                entries: Vec::new(),
                connections: Vec::new(),
                bytes: vec![0; CHUNK],
            };
            let thread = std::thread::Builder::new().name("connections".into());
            thread.spawn(move || switch.run())?;
            Ok(Connections { orders, registry })
        };
        Poller::new()
            .and_then(start)
            .map_err(Error::system("connections of ranks"))
    }

    /// The variables by which a rank would find libpmix, so that it comes here instead. Whether
    /// there are any.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn behind(
        &self,
        owner: &Owner,
        variables: &mut [(OsString, OsString)],
    ) -> Result<bool, Error> {
        // All of them are names of one address, for clients of different versions.
        let Some(there) = variables
            .iter()
            .find_map(|(_, value)| Some(parts(value)?.1))
        else {
            return Ok(false);
        };
        let own = self.listen(owner, there);
        let own = own.map_err(Error::system("a port of this host"))?;
        for (_, value) in variables {
            if let Some((front, _, rest)) = parts(value) {
                *value = format!("{front}{}{own}{rest}", SCHEMES[0]).into();
            }
        }
        Ok(true)
    }

    fn listen(&self, owner: &Owner, there: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?;
        self.order(Order::Listen(Entry {
            owner: owner.clone(),
            listener: Source::new(&self.registry, listener, Interest::READ)?,
            there,
            is_ready: false,
        }));
        Ok(own)
    }

    /// A rank has said farewell.
    pub fn farewell(&self, owner: Owner) {
        self.order(Order::Farewell(owner));
    }

    /// Closes the connections of a rank one after the other, and does this after each.
    pub fn end(&self, owner: &Owner, then: impl Fn()) {
        loop {
            let (done, is_done) = channel();
            self.order(Order::End(owner.clone(), done));
            match is_done.recv_timeout(CLOSING) {
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

/// What libpmix is found by: what is before its address, that, and what is behind.
fn parts(value: &OsStr) -> Option<(&str, SocketAddr, &str)> {
    let value = value.to_str()?;
    let scheme = SCHEMES.into_iter().find(|scheme| value.contains(scheme))?;
    let (front, address) = value.split_once(scheme)?;
    let end = address.find([';', ',']).unwrap_or(address.len());
    let (address, rest) = address.split_at(end);
    let (host, port) = address.rsplit_once(':')?;
    let host: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
    Some((front, (host, port.parse().ok()?).into(), rest))
}

/// Where a rank connects.
struct Entry {
    owner: Owner,
    listener: Source<TcpListener>,
    there: SocketAddr,
    is_ready: bool,
}

/// What passes everything on.
struct Switch {
    orders: Receiver<Order>,
    poller: Poller,
    is_over: bool,
    entries: Vec<Entry>,
    connections: Vec<Connection>,
    /// Where what is passed on is for a moment.
    bytes: Vec<u8>,
}

impl Switch {
    fn run(&mut self) {
        while !self.is_over {
            self.wait();
            while let Ok(order) = self.orders.try_recv() {
                self.obey(order);
            }
            self.accept();
            let (registry, bytes) = (self.poller.registry(), &mut self.bytes);
            self.connections
                .retain_mut(|it| !std::mem::take(&mut it.is_ready) || it.pass_on(registry, bytes));
            // One that cannot be waited for would hang.
            self.connections.retain_mut(|it| it.watch().is_ok());
        }
    }

    fn accept(&mut self) {
        for entry in self.entries.iter().filter(|entry| entry.is_ready) {
            match entry.listener.accept() {
                Ok((client, _)) if is_foreign(&client) => {
                    log::info!("a connection of another user to a rank's port is closed");
                }
                Ok((client, _)) => {
                    let registry = self.poller.registry();
                    let new = Connection::new(registry, entry.owner.clone(), client, entry.there);
                    self.connections.extend(new.ok());
                    close_oldest_silent(&mut self.connections, &entry.owner);
                }
                Err(error) if is_passing(&error) => {}
                // Others may close descriptors.
                Err(_) => std::thread::sleep(NO_ROOM),
            }
        }
    }

    fn wait(&mut self) {
        let ready = self.poller.wait(None).unwrap_or_default();
        for entry in &mut self.entries {
            entry.is_ready = ready.contains(&entry.listener);
        }
        for connection in &mut self.connections {
            let ends = connection.client.iter().chain(&connection.server);
            connection.is_ready |= ends.into_iter().any(|end| ready.contains(end));
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Listen(entry) => self.entries.push(entry),
            Order::Stop => self.is_over = true,
            Order::Farewell(owner) => {
                let own = self.connections.iter_mut().filter(|it| it.owner == owner);
                own.for_each(Connection::finalise);
            }
            Order::End(owner, done) => {
                self.entries.retain(|entry| entry.owner != owner);
                if let Some(own) = self.connections.iter_mut().find(|it| it.owner == owner) {
                    own.end(done);
                }
            }
        }
    }
}

/// Closes the oldest of a rank's connections that have sent nothing.
///
/// [`SILENT`] of them are kept.
fn close_oldest_silent(connections: &mut Vec<Connection>, owner: &Owner) {
    let is_silent = |it: &&Connection| it.server.is_none() && it.owner == *owner;
    if connections.iter().filter(is_silent).count() > SILENT
        && let Some(oldest) = connections.iter().position(|it| is_silent(&it))
    {
        connections.remove(oldest);
    }
}

struct Connection {
    owner: Owner,
    /// `None`: it has closed it.
    client: Option<Source<TcpStream>>,
    there: SocketAddr,
    /// `None`: the rank has said nothing yet.
    server: Option<Source<TcpStream>>,
    /// Bytes of the rank for libpmix.
    up: Outbox,
    /// Bytes of libpmix for the rank.
    down: Outbox,
    is_finalised: bool,
    is_ready: bool,
    /// Who waits for its end.
    done: Option<Sender<()>>,
}

fn prepared(registry: &Registry, stream: TcpStream) -> io::Result<Source<TcpStream>> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Source::new(registry, stream, Interest::READ)
}

impl Connection {
    fn new(
        registry: &Registry,
        owner: Owner,
        client: TcpStream,
        there: SocketAddr,
    ) -> io::Result<Connection> {
        Ok(Connection {
            owner,
            client: Some(prepared(registry, client)?),
            there,
            server: None,
            up: Outbox::new(CHUNK),
            down: Outbox::new(CHUNK),
            is_finalised: false,
            is_ready: true,
            done: None,
        })
    }

    /// Has the thread wait for something to pass on, or for room for that.
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

    /// Passes on what there is. Whether it goes on.
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

    /// Connects to libpmix if the rank has said something. Whether that can be.
    fn greet(&mut self, registry: &Registry) -> bool {
        if self.up.is_empty() {
            return true;
        }
        let server = TcpStream::connect(self.there);
        self.server = server.and_then(|server| prepared(registry, server)).ok();
        self.server.as_deref().is_some_and(|server| {
            // Whoever has gone is found by reading.
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
        // It may be closed on that side already.
        (self.is_ready, self.done) = (true, Some(done));
        self.close();
    }

    /// Tells libpmix that it is over.
    fn close(&self) {
        if let Some(server) = &self.server {
            let _ = server.shutdown(Shutdown::Write);
        }
    }
}

/// Passes on some of what there is. Whether more may come.
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
            Err(error) if is_passing(&error) => {}
            Err(_) => return false,
        }
    }
    if let Some(to) = to {
        // Whoever has gone is found by reading.
        let _ = pending.flush(to);
    }
    true
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
