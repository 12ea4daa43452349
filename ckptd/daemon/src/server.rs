//! The event loop: sockets, deadlines and signals.

use super::connection::{Connection, ConnectionOutcome, Stream};
use super::service::{ClientIdentity, Service};
use super::sweeper::Sweeper;
use crate::StartError;
use crate::daemon_socket::{Socket, default_socket, own_uid, take_socket};
use crate::pool::Rules;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use understudy_sockets::{Poller, Ready, Registry, Source, listen};
use understudy_wire::auth;
use understudy_wire::io::Interest;

/// Limit of clients; authenticated clients are never displaced.
const MAX_CLIENTS: usize = 1000;
/// Limit of clients that have not authenticated, together with those that request metrics.
///
/// A new client of these two kinds displaces the oldest.
const MAX_UNAUTHENTICATED: usize = 64;
/// Limit of new clients that are accepted before connected clients are served.
const MAX_ACCEPTS_PER_TURN: usize = 32;

/// Options of the daemon.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of the socket; `None` for the default path.
    pub socket: Option<PathBuf>,
    /// Address for clients of other nodes, which must have a token.
    pub listen: Option<SocketAddr>,
    /// Ports of which one is used if `listen` has the port 0.
    pub ports: RangeInclusive<u16>,
    /// The file of tokens.
    pub token_file: Option<PathBuf>,
    /// Loopback address for requests of metrics.
    pub metrics: Option<SocketAddr>,
    /// Number of idle spares, of all jobs together, at which no more are started.
    pub most_spares: Option<u32>,
    /// True if the daemon exits at the end of standard input.
    ///
    /// The directory of the socket is then removed if it is empty.
    pub until_stdin_ends: bool,
}

impl Options {
    fn check(&self) -> Result<(), StartError> {
        let refuse = |why: &str| Err(StartError::Options(why.into()));
        match self.metrics {
            Some(address) if !address.ip().is_loopback() => {
                return refuse("--metrics needs a loopback address, such as 127.0.0.1:9477");
            }
            _ => {}
        }
        match (&self.listen, &self.token_file) {
            (Some(_), None) => refuse(
                "--listen needs a --token-file: otherwise any process that reaches the port could \
                 join",
            ),
            (None, Some(_)) => {
                refuse("--token-file is used only with --listen: give both or neither")
            }
            _ => Ok(()),
        }
    }
}

/// Serves until SIGTERM or SIGINT, or the end of standard input if required.
///
/// Writes a line to `ready` for each address as soon as it can be used.
pub fn serve(options: &Options, ready: &mut dyn Write) -> Result<(), StartError> {
    options.check()?;
    let tokens = match &options.token_file {
        Some(path) => {
            auth::read_tokens(path).map_err(|error| StartError::Options(error.to_string()))?
        }
        None => Vec::new(),
    };
    let path = options.socket.clone().unwrap_or_else(default_socket);
    let mut socket = take_socket(&path)?;
    socket.has_own_directory = options.until_stdin_ends;
    let shutdown = shutdown_socket(options.until_stdin_ends).map_err(StartError::system(
        "cannot handle signals or standard input",
    ))?;
    let remote = listener(options.listen, &options.ports)?;
    let metrics = listener(options.metrics, &(0..=0))?;
    let _ = writeln!(ready, "socket {}", path.display());
    for (what, listener) in [("tcp", &remote), ("metrics", &metrics)] {
        if let Some(address) = listener
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
        {
            let _ = writeln!(ready, "{what} {address}");
        }
    }
    let _ = ready.flush();
    let poller = Poller::new().map_err(StartError::system("cannot create an epoll instance"))?;
    let mut server = Server {
        local: register(&poller, socket)?,
        remote: remote.map(|socket| register(&poller, socket)).transpose()?,
        metrics: metrics
            .map(|socket| register(&poller, socket))
            .transpose()?,
        shutdown: register(&poller, shutdown)?,
        poller,
        service: Service::new(rules_for(options), random_first_lease_token(), tokens),
        sweeper: Sweeper::start(),
        connections: Vec::new(),
        start: Instant::now(),
    };
    server.run();
    drop(server);
    log::info!("the daemon exits");
    Ok(())
}

/// Registers a socket with the poller, which reports when the socket is readable.
fn register<T: AsFd>(poller: &Poller, socket: T) -> Result<Source<T>, StartError> {
    Source::new(poller.registry(), socket, Interest::READ).map_err(StartError::system(
        "cannot add a socket to the epoll instance",
    ))
}

fn rules_for(options: &Options) -> Rules {
    let defaults = Rules::default();
    Rules {
        spares: options.most_spares.unwrap_or(defaults.spares),
        ..defaults
    }
}

/// Returns a socket that becomes readable when the daemon must exit.
fn shutdown_socket(until_stdin_ends: bool) -> std::io::Result<UnixStream> {
    let (shutdown, mut sender) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    if until_stdin_ends {
        std::thread::Builder::new().spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            sender.write_all(b"\0")
        })?;
    }
    Ok(shutdown)
}

/// Listens at an address; one with port 0 gets one of these ports.
fn listener(
    address: Option<SocketAddr>,
    ports: &RangeInclusive<u16>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let ports = match address.port() {
        0 => ports.clone(),
        port => port..=port,
    };
    let (first, last) = (ports.start(), ports.end());
    let at = format!("cannot listen on {address}, ports {first} to {last}");
    let failed = || StartError::system(at.clone());
    let listener = listen(address.ip(), &ports).map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    Ok(Some(listener))
}

/// Returns a random number before the token of the first lease.
///
/// The tokens of an earlier daemon's leases are thus invalid.
fn random_first_lease_token() -> u64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Fills a buffer with random bytes of the kernel.
fn fill_random(bytes: &mut [u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let got =
            rustix::rand::getrandom(&mut bytes[done..], rustix::rand::GetRandomFlags::empty());
        done += got.unwrap_or(0);
    }
}

struct Server {
    local: Source<Socket>,
    remote: Option<Source<TcpListener>>,
    metrics: Option<Source<TcpListener>>,
    shutdown: Source<UnixStream>,
    poller: Poller,
    service: Service,
    sweeper: Sweeper,
    /// Connections, oldest first.
    connections: Vec<Source<Connection>>,
    start: Instant,
}

impl Server {
    fn run(&mut self) {
        loop {
            let ready = self.wait();
            if ready.contains(&self.shutdown) {
                return;
            }
            let is_ready = |listener: &Option<Source<_>>| {
                listener
                    .as_ref()
                    .is_some_and(|listener| ready.contains(listener))
            };
            let now = self.start.elapsed();
            self.serve_clients(now, &ready);
            self.reject_late_clients(now);
            if self.service.tick(now, understudy_relay::lives) {
                self.sweeper.wake();
            }
            self.service.counters.removed = self.sweeper.removed();
            if ready.contains(&self.local) {
                self.accept_local(now);
            }
            if is_ready(&self.remote) {
                self.accept_remote(now);
            }
            if is_ready(&self.metrics) {
                self.accept_metrics(now);
            }
        }
    }

    /// Waits until a socket is ready or a deadline is reached.
    fn wait(&mut self) -> Ready {
        self.watch();
        let now = self.start.elapsed();
        let deadlines = self.connections.iter().map(|client| client.deadline());
        let next = deadlines.chain(self.service.next_deadline(now)).min();
        let left = next.map(|next| next.saturating_sub(now));
        self.poller.wait(left).unwrap_or_else(|error| {
            log::error!("epoll_wait: {error}");
            std::thread::sleep(Duration::from_millis(100));
            Ready::default()
        })
    }

    /// Updates the poller's interest in each client.
    fn watch(&mut self) {
        let (now, service) = (self.start.elapsed(), &mut self.service);
        self.connections.retain_mut(|connection| {
            let is_watched = connection.set_interest(connection.interest()).is_ok();
            if !is_watched {
                end_connection(
                    now,
                    service,
                    connection,
                    ConnectionOutcome::Rejected("its connection cannot be polled"),
                );
            }
            is_watched
        });
    }

    fn serve_clients(&mut self, now: Duration, ready: &Ready) {
        let count = self.connections.len();
        let service = &mut self.service;
        self.connections.retain_mut(|connection| {
            let is_ready = ready.contains(connection);
            match is_ready.then(|| connection.get_mut().read(now, service, count)) {
                None | Some(ConnectionOutcome::Continue) => true,
                Some(outcome) => {
                    end_connection(now, service, connection, outcome);
                    false
                }
            }
        });
    }

    /// Closes the connections whose deadline has passed.
    fn reject_late_clients(&mut self, now: Duration) {
        let service = &mut self.service;
        self.connections.retain(|connection| {
            let is_late = connection.deadline() <= now;
            if is_late {
                end_connection(
                    now,
                    service,
                    connection,
                    ConnectionOutcome::Rejected(
                        "it has sent nothing, or received nothing, for too long",
                    ),
                );
            }
            !is_late
        });
    }

    fn accept_local(&mut self, now: Duration) {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            let stream = match self.local.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => return after_failed_accept(&error),
            };
            let uid = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid.as_raw());
            if uid != Ok(own_uid()) {
                self.service.counters.turned_away += 1;
                log::warn!("a client of another user ({uid:?}) is rejected");
                continue;
            }
            if stream.set_nonblocking(true).is_ok() {
                self.admit(
                    now,
                    Connection::frames(now, Stream::Unix(stream), ClientIdentity::OWN),
                );
            }
        }
    }

    fn accept_remote(&mut self, now: Duration) {
        let Some(listener) = self.remote.take() else {
            return;
        };
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            match listener.accept() {
                Ok((stream, _)) => {
                    let mut nonce = [0; 32];
                    fill_random(&mut nonce);
                    if stream.set_nonblocking(true).is_ok() {
                        let _ = stream.set_nodelay(true);
                        self.admit(
                            now,
                            Connection::frames(
                                now,
                                Stream::Tcp(stream),
                                ClientIdentity::Unauthenticated { nonce },
                            ),
                        );
                    }
                }
                Err(error) => {
                    after_failed_accept(&error);
                    break;
                }
            }
        }
        self.remote = Some(listener);
    }

    fn accept_metrics(&mut self, now: Duration) {
        let Some(listener) = self.metrics.take() else {
            return;
        };
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            match listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_ok() {
                        self.admit(now, Connection::text(now, Stream::Tcp(stream)));
                    }
                }
                Err(error) => {
                    after_failed_accept(&error);
                    break;
                }
            }
        }
        self.metrics = Some(listener);
    }

    /// Adds a client, or rejects it if the daemon has [`MAX_CLIENTS`].
    ///
    /// A new client that may be displaced displaces the oldest such client if
    /// [`MAX_UNAUTHENTICATED`] of them are connected.
    fn admit(&mut self, now: Duration, mut connection: Connection) {
        let displaceable = self
            .connections
            .iter()
            .filter(|other| other.may_be_displaced())
            .count();
        if connection.may_be_displaced()
            && displaceable >= MAX_UNAUTHENTICATED
            && let Some(oldest) = self
                .connections
                .iter()
                .position(|other| other.may_be_displaced())
        {
            let oldest = self.connections.remove(oldest);
            end_connection(
                now,
                &mut self.service,
                &oldest,
                ConnectionOutcome::Rejected("too many clients have not authenticated"),
            );
        }
        if self.connections.len() >= MAX_CLIENTS {
            return end_connection(
                now,
                &mut self.service,
                &connection,
                ConnectionOutcome::Rejected("the daemon has too many clients"),
            );
        }
        match connection.write(now) {
            ConnectionOutcome::Continue => {
                match register_connection(self.poller.registry(), connection) {
                    Ok(connection) => self.connections.push(connection),
                    // The connection is closed, and the client connects again.
                    Err(error) => log::warn!("epoll_ctl: {error}"),
                }
            }
            outcome => end_connection(now, &mut self.service, &connection, outcome),
        }
    }
}

/// Handles the end of a connection, which the caller closes.
fn end_connection(
    now: Duration,
    service: &mut Service,
    connection: &Connection,
    outcome: ConnectionOutcome,
) {
    if let ConnectionOutcome::Rejected(why) = outcome {
        service.counters.turned_away += 1;
        log::info!("a client is rejected: {why}");
    }
    if let Some(identity) = connection.identity() {
        service.connection_ended(now, identity);
    }
}

/// Logs an unexpected error of accept(2), and pauses.
///
/// For example, while the process has no free descriptor, every accept(2) would fail at once.
fn after_failed_accept(error: &std::io::Error) {
    if !matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    ) {
        log::warn!("accept: {error}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn register_connection(
    registry: &Registry,
    connection: Connection,
) -> io::Result<Source<Connection>> {
    let interest = connection.interest();
    Source::new(registry, connection, interest)
}
