//! The connections between ranks and libpmix, which hears of lost ones apart from each other.
//!
//! OpenPMIx 4.2 to 6.1 completes a fence between ranks of one node by an event of its own. If it loses two of them before that event runs, or one
//! that has just come to the fence, it completes the fence twice, and the second time it uses what it has freed (`lost_connection`). A recovery is when many are lost
//! at once. So ranks connect here, and what they and libpmix say to each other is passed on. That a rank has gone without a farewell
//! (PMIx_Finalize) is not: its connection stays open on libpmix's side until [`Connections::end`], when the fences that it owes are nobody's any more.

use super::super::{Error, Name};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use understudy_numbers::Rank;

/// Whose a connection is.
pub type Owner = (Name, Rank);

/// How libpmix names the port that it listens at, in what clients find it by.
const ADDRESS: &str = "tcp4://127.0.0.1:";
/// How long libpmix may take to close a connection whose other end is closed.
const CLOSING: Duration = Duration::from_secs(10);

/// What the thread that passes everything on is to do.
enum Order {
    Listen(Entry),
    /// The rank has said farewell: its connection ends when it closes it.
    Farewell(Owner),
    /// Ends a connection of a rank that expects no others. Tells when libpmix has closed it; if there is none, nothing.
    End(Owner, Sender<()>),
    /// Nobody has orders any more.
    Stop,
}

/// All of them.
pub struct Connections {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
}

impl Connections {
    /// # Errors
    /// Those of eventfd(2) and of the start of a thread.
    pub fn new() -> Result<Connections, Error> {
        let failed = Error::system("connections of ranks");
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from);
        let (orders, received) = channel();
        let start = |wake: OwnedFd| {
            let wake = Arc::new(wake);
            let mut switch = Switch {
                orders: received,
                wake: Arc::clone(&wake),
                is_over: false,
                entries: Vec::new(),
                connections: Vec::new(),
                bytes: vec![0; 1 << 16],
            };
            let thread = std::thread::Builder::new().name("connections".into());
            thread.spawn(move || switch.run())?;
            Ok(Connections { orders, wake })
        };
        wake.and_then(start).map_err(failed)
    }

    /// The variables by which a rank would find libpmix, so that it comes here instead.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn behind(&self, owner: &Owner, variables: &mut [(OsString, OsString)]) -> Result<(), Error> {
        // All of them are names of one port, for clients of different versions.
        let Some(there) = variables.iter().find_map(|(_, value)| Some(parts(value)?.1)) else {
            return Ok(());
        };
        let own = self.listen(owner, there);
        let own = own.map_err(Error::system("a port of this host"))?;
        for (_, value) in variables {
            if let Some((front, _, rest)) = parts(value) {
                *value = format!("{front}{ADDRESS}{own}{rest}").into();
            }
        }
        Ok(())
    }

    fn listen(&self, owner: &Owner, there: u16) -> io::Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?.port();
        self.order(Order::Listen(Entry {
            owner: owner.clone(),
            listener,
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
                Err(_) => return,
            }
        }
    }

    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.order(Order::Stop);
    }
}

/// What libpmix's port is named by: before its address, the port, behind.
fn parts(value: &OsStr) -> Option<(&str, u16, &str)> {
    let (front, port) = value.to_str()?.split_once(ADDRESS)?;
    let digits = port.bytes().take_while(u8::is_ascii_digit).count();
    Some((front, port[..digits].parse().ok()?, &port[digits..]))
}

/// Where a rank connects.
struct Entry {
    owner: Owner,
    listener: TcpListener,
    /// The port at which libpmix listens.
    there: u16,
    is_ready: bool,
}

/// What passes everything on.
struct Switch {
    orders: Receiver<Order>,
    wake: Arc<OwnedFd>,
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
            let bytes = &mut self.bytes;
            self.connections
                .retain_mut(|it| !std::mem::take(&mut it.is_ready) || it.pass_on(bytes));
        }
    }

    fn accept(&mut self) {
        for entry in self.entries.iter().filter(|entry| entry.is_ready) {
            while let Ok((client, _)) = entry.listener.accept() {
                // If libpmix has gone, so has whoever would miss this.
                let new = Connection::new(entry.owner.clone(), client, entry.there);
                self.connections.extend(new.ok());
            }
        }
    }

    fn wait(&mut self) {
        let entries = self.entries.iter();
        let entries = entries.map(|entry| PollFd::new(&entry.listener, PollFlags::IN));
        let connections = self.connections.iter().flat_map(Connection::awaited);
        let wake = PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN);
        let mut polls: Vec<PollFd<'_>> = entries.chain(connections).chain([wake]).collect();
        let _ = poll(&mut polls, None);
        let ready: Vec<bool> = polls.iter().map(|it| !it.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        for entry in &mut self.entries {
            entry.is_ready = ready.next() == Some(true);
        }
        for connection in &mut self.connections {
            let polled = 1 + usize::from(connection.client.is_some());
            connection.is_ready = ready.by_ref().take(polled).any(|is| is);
        }
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Listen(entry) => self.entries.push(entry),
            Order::Stop => self.is_over = true,
            Order::Farewell(owner) => {
                let own = self.connections.iter_mut().filter(|it| it.owner == owner);
                own.for_each(|it| it.is_finalised = true);
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

/// One of them.
struct Connection {
    owner: Owner,
    /// `None`: it has closed it.
    client: Option<TcpStream>,
    server: TcpStream,
    up: Way,
    down: Way,
    is_finalised: bool,
    is_ready: bool,
    /// Who waits for its end.
    done: Option<Sender<()>>,
}

impl Connection {
    fn new(owner: Owner, client: TcpStream, there: u16) -> io::Result<Connection> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, there))?;
        for stream in [&client, &server] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        Ok(Connection {
            owner,
            client: Some(client),
            server,
            up: Way::default(),
            down: Way::default(),
            is_finalised: false,
            is_ready: true,
            done: None,
        })
    }

    /// What it waits for: something to pass on, or room for that.
    fn awaited(&self) -> impl Iterator<Item = PollFd<'_>> {
        let flags = |from: &Way, to: &Way| {
            let read = if from.pending.is_empty() {
                PollFlags::IN
            } else {
                PollFlags::empty()
            };
            let write = if to.pending.is_empty() {
                PollFlags::empty()
            } else {
                PollFlags::OUT
            };
            read | write
        };
        let client = self.client.iter();
        let client = client.map(move |client| PollFd::new(client, flags(&self.up, &self.down)));
        client.chain([PollFd::new(&self.server, flags(&self.down, &self.up))])
    }

    /// Passes on what there is. Whether it goes on.
    fn pass_on(&mut self, bytes: &mut [u8]) -> bool {
        if let Some(client) = &self.client
            && !self.up.pass(client, Some(&self.server), bytes)
        {
            self.client = None;
            if self.is_finalised {
                self.close();
            }
        }
        let is_open = self.down.pass(&self.server, self.client.as_ref(), bytes);
        if let Some(done) = self.done.take_if(|_| !is_open) {
            let _ = done.send(());
        }
        is_open
    }

    fn end(&mut self, done: Sender<()>) {
        self.client = None;
        self.up.pending.clear();
        // It may be closed on that side already.
        (self.is_ready, self.done) = (true, Some(done));
        self.close();
    }

    /// Tells libpmix that it is over.
    fn close(&self) {
        let _ = self.server.shutdown(Shutdown::Write);
    }
}

/// One direction of a connection, and what has been read and not been written.
#[derive(Default)]
struct Way {
    pending: Vec<u8>,
}

impl Way {
    /// Passes on what there is; into nothing, if nobody is there. Whether more may come.
    fn pass(&mut self, mut from: &TcpStream, to: Option<&TcpStream>, bytes: &mut [u8]) -> bool {
        loop {
            if !self.flush(to) {
                return true;
            }
            match from.read(bytes) {
                Ok(0) => return false,
                Ok(length) => self.pending.extend_from_slice(&bytes[..length]),
                Err(error) => return is_passing(&error),
            }
        }
    }

    /// Whether nothing is pending any more.
    fn flush(&mut self, to: Option<&TcpStream>) -> bool {
        while !self.pending.is_empty() {
            let written = to.map_or(Ok(self.pending.len()), |mut to| to.write(&self.pending));
            match written {
                Ok(length) => drop(self.pending.drain(..length)),
                Err(error) if is_passing(&error) => return false,
                // Whoever has gone is found by reading.
                Err(_) => self.pending.clear(),
            }
        }
        true
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank's connection: that of the rank, and what stands for libpmix's.
    struct Pair {
        owner: Owner,
        client: TcpStream,
        server: TcpStream,
    }

    impl Pair {
        fn new(connections: &Connections, rank: u32) -> Pair {
            let owner = (Name::new("job", 1).unwrap(), Rank(rank));
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let there = listener.local_addr().unwrap().port();
            let uri = format!("job.1.0;{ADDRESS}{there};5.0");
            let mut variables = vec![("A".into(), uri.clone().into()), ("B".into(), "tcp4://".into())];
            connections.behind(&owner, &mut variables).unwrap();
            let (front, own, rest) = parts(&variables[0].1).unwrap();
            assert_eq!((front, rest), ("job.1.0;", ";5.0"));
            assert_ne!(own, there);
            assert_eq!(variables[1].1, "tcp4://");
            let client = TcpStream::connect((Ipv4Addr::LOCALHOST, own)).unwrap();
            let (server, _) = listener.accept().unwrap();
            Pair { owner, client, server }
        }

        fn is_closed(&mut self) -> bool {
            self.server.set_read_timeout(None).unwrap();
            self.server.read(&mut [0]).unwrap() == 0
        }

        /// For a while nothing is heard of it.
        fn is_open(&mut self) -> bool {
            self.server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            self.server.read(&mut [0]).is_err()
        }
    }

    #[test]
    fn both_are_told_everything() {
        let connections = Connections::new().unwrap();
        let Pair {
            mut client, mut server, ..
        } = Pair::new(&connections, 0);
        // More than a socket takes from somebody whose other end does not read.
        let sent: Vec<u8> = (0..20_000_000u32).map(|at| (at % 251) as u8).collect();
        let copy = sent.clone();
        let writing = std::thread::spawn(move || {
            client.write_all(&copy).unwrap();
            let mut heard = vec![0; copy.len()];
            client.read_exact(&mut heard).unwrap();
            assert!(heard == copy);
        });
        let mut heard = vec![0; sent.len()];
        server.read_exact(&mut heard).unwrap();
        assert!(heard == sent);
        server.write_all(&heard).unwrap();
        writing.join().unwrap();
    }

    #[test]
    fn one_that_says_farewell_is_closed_at_once() {
        let connections = Connections::new().unwrap();
        let mut pair = Pair::new(&connections, 0);
        connections.farewell(pair.owner.clone());
        pair.client.shutdown(Shutdown::Both).unwrap();
        assert!(pair.is_closed());
    }

    /// Even if libpmix has something to say to them.
    #[test]
    fn lost_ones_are_closed_one_after_the_other_at_the_end() {
        let connections = Connections::new().unwrap();
        let mut pairs = [0, 0, 1].map(|rank| Pair::new(&connections, rank));
        for pair in &pairs {
            pair.client.shutdown(Shutdown::Both).unwrap();
        }
        for pair in &mut pairs {
            pair.server.write_all(&[7; 1000]).unwrap();
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
}
