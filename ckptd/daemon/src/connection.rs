//! Connection of a client.
//!
//! A connection has a socket, received bytes, bytes to send, and a deadline for the client's next
//! step.

use super::service::{ClientIdentity, Reply, Service};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use understudy_wire::io::{Interest, Mailbox, Outbox};
use understudy_wire::{Answer, Decoder, Request, encode};

/// Time limit for the rest of a message, and for a new client's first message.
///
/// A new client that has received a challenge has [`IDLE_TIMEOUT`] instead.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the next message after a complete one, or after a sent answer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of bytes that are read before the messages among them are decoded.
const MAX_READ_BYTES: usize = 16 << 10;
/// Number of bytes from one client after which other clients are served.
const MAX_READ_BYTES_PER_TURN: usize = 64 << 10;
/// Longest request for metrics, in bytes.
const MAX_METRICS_REQUEST_BYTES: usize = 4096;
/// Limit of unsent bytes for a client.
const MAX_UNSENT_BYTES: usize = 2 << 20;

/// A Unix or TCP socket.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&*stream).read(buffer),
            Stream::Tcp(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&*stream).write(bytes),
            Stream::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// Protocol of a client.
#[derive(Debug)]
enum ClientProtocol {
    Frames(Mailbox<Decoder>, ClientIdentity),
    /// HTTP, for requests of metrics only.
    Text(Mailbox<MetricsRequest>),
}

/// Received bytes of a request for metrics.
#[derive(Debug, Default)]
struct MetricsRequest(Vec<u8>);

impl understudy_wire::io::Decoder for MetricsRequest {
    fn feed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// State of a connection after an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionOutcome {
    Continue,
    /// The client has closed the connection, the connection is broken, or all is sent.
    Closed,
    /// The client is disconnected, for this reason.
    Rejected(&'static str),
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    protocol: ClientProtocol,
    out: Outbox,
    /// True if an answer had no room in `out`.
    is_flooded: bool,
    /// True if the connection ends when `out` is sent.
    ends: bool,
    /// Time limit for the next step of the client.
    deadline: Duration,
}

impl Connection {
    /// Returns the connection of a client that sends frames.
    ///
    /// An unauthenticated client receives a challenge.
    pub(super) fn frames(now: Duration, stream: Stream, identity: ClientIdentity) -> Self {
        let mut connection = Self::new(
            now,
            stream,
            ClientProtocol::Frames(Mailbox::default(), identity),
        );
        if let ClientProtocol::Frames(_, ClientIdentity::Unauthenticated { nonce }) =
            &connection.protocol
        {
            let nonce = *nonce;
            connection.send(&Answer::Challenge { nonce });
        }
        connection
    }

    /// Returns the connection of a client that requests metrics by HTTP.
    pub(super) fn text(now: Duration, stream: Stream) -> Self {
        Self::new(now, stream, ClientProtocol::Text(Mailbox::default()))
    }

    fn new(now: Duration, stream: Stream, protocol: ClientProtocol) -> Self {
        Self {
            stream,
            protocol,
            out: Outbox::new(MAX_UNSENT_BYTES),
            is_flooded: false,
            ends: false,
            deadline: now + MESSAGE_TIMEOUT,
        }
    }

    /// Returns the identity of the client, if it sends frames.
    pub(super) fn identity(&self) -> Option<&ClientIdentity> {
        match &self.protocol {
            ClientProtocol::Frames(_, identity) => Some(identity),
            ClientProtocol::Text(_) => None,
        }
    }

    /// True if the connection may be closed to make room for another client.
    ///
    /// Clients may be displaced that have not authenticated, and those that request metrics.
    pub(super) fn may_be_displaced(&self) -> bool {
        !matches!(
            &self.protocol,
            ClientProtocol::Frames(_, ClientIdentity::Authenticated { .. })
        )
    }

    /// Returns the operations for which the connection is polled.
    ///
    /// A connection that ends is not read any more.
    pub(super) fn interest(&self) -> Interest {
        Interest::new(!self.ends, !self.out.is_empty())
    }

    /// Returns the time at which the connection is closed if the client does nothing.
    ///
    /// Spares send beats more often than this limit requires.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Reads and handles available data, and sends the replies.
    pub(super) fn read(
        &mut self,
        now: Duration,
        service: &mut Service,
        connections: usize,
    ) -> ConnectionOutcome {
        let mut total = 0;
        while total < MAX_READ_BYTES_PER_TURN && !self.ends {
            let had_incomplete_message = self.has_incomplete_message();
            let Ok(got) = self.read_available() else {
                return ConnectionOutcome::Closed;
            };
            if got > 0 {
                match self.handle_received(now, had_incomplete_message, service, connections) {
                    ConnectionOutcome::Continue => total += got,
                    other => return other,
                }
            } else if self.has_ended() {
                return ConnectionOutcome::Closed;
            } else {
                break;
            }
        }
        self.write(now)
    }

    /// Reads available bytes and returns their number.
    fn read_available(&mut self) -> io::Result<usize> {
        let room = self.room().min(MAX_READ_BYTES);
        match &mut self.protocol {
            ClientProtocol::Frames(mailbox, _) => mailbox.fill(&self.stream, room),
            ClientProtocol::Text(mailbox) => mailbox.fill(&self.stream, room),
        }
    }

    /// True if the last frame has arrived in part; false for a request for metrics.
    fn has_incomplete_message(&mut self) -> bool {
        match &mut self.protocol {
            ClientProtocol::Frames(mailbox, _) => mailbox.decoder().incomplete_bytes() > 0,
            ClientProtocol::Text(_) => false,
        }
    }

    /// True if the client has closed its end.
    fn has_ended(&self) -> bool {
        match &self.protocol {
            ClientProtocol::Frames(mailbox, _) => mailbox.has_ended(),
            ClientProtocol::Text(mailbox) => mailbox.has_ended(),
        }
    }

    /// Returns the number of bytes that may be read at once.
    ///
    /// The limit is low for a client that has not authenticated.
    fn room(&mut self) -> usize {
        match &mut self.protocol {
            ClientProtocol::Frames(mailbox, ClientIdentity::Unauthenticated { .. }) => {
                mailbox.decoder().room_unauthenticated()
            }
            ClientProtocol::Frames(..) | ClientProtocol::Text(_) => usize::MAX,
        }
    }

    /// Decodes and handles the messages that have arrived, and queues the replies.
    ///
    /// `had_incomplete_message` is true if an earlier read has left an incomplete message, whose
    /// time limit already runs.
    fn handle_received(
        &mut self,
        now: Duration,
        had_incomplete_message: bool,
        service: &mut Service,
        connections: usize,
    ) -> ConnectionOutcome {
        let (decoder, identity) = match &mut self.protocol {
            ClientProtocol::Frames(mailbox, identity) => (mailbox.decoder(), identity),
            ClientProtocol::Text(mailbox) => {
                let MetricsRequest(request) = mailbox.decoder();
                if request.windows(4).any(|window| window == b"\r\n\r\n") {
                    let is_for_metrics =
                        request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
                    let response = response(is_for_metrics.then(|| service.metrics(connections)));
                    self.is_flooded |= self.out.push(&response).is_err();
                    self.ends = true;
                }
                return match request.len() > MAX_METRICS_REQUEST_BYTES {
                    true => ConnectionOutcome::Rejected("its request is too long"),
                    false => ConnectionOutcome::Continue,
                };
            }
        };
        let mut replies = Vec::new();
        let mut is_malformed = false;
        loop {
            let taken = match identity {
                ClientIdentity::Unauthenticated { .. } => decoder.take_unauthenticated::<Request>(),
                ClientIdentity::Authenticated { .. } => decoder.take::<Request>(),
            };
            match taken {
                Ok(Some(request)) => {
                    self.deadline = now + IDLE_TIMEOUT;
                    let reply = service.handle(now, identity, request);
                    let is_end = matches!(reply, Reply::End(_));
                    replies.push(reply);
                    if is_end {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    replies.push(Reply::End(error.to_string()));
                    is_malformed = true;
                    break;
                }
            }
        }
        // The time limit of an incomplete message runs from its first bytes; later bytes do not
        // extend the limit.
        if decoder.incomplete_bytes() > 0 && !(had_incomplete_message && replies.is_empty()) {
            self.deadline = now + MESSAGE_TIMEOUT;
        }
        for reply in replies {
            match reply {
                Reply::Nothing => {}
                Reply::Send(answer) => self.send(&answer),
                Reply::End(why) => {
                    service.counters.turned_away +=
                        u64::from(is_malformed || self.may_be_displaced());
                    log::info!("a client is rejected: {why}");
                    self.send(&Answer::Closed(why));
                    self.ends = true;
                }
            }
        }
        match self.is_flooded {
            true => ConnectionOutcome::Rejected("it does not receive the reply to its request"),
            false => ConnectionOutcome::Continue,
        }
    }

    /// Queues an answer; the connection ends if the answer is too long to be encoded.
    fn send(&mut self, answer: &Answer) {
        match encode(answer) {
            Some(frame) => self.is_flooded |= self.out.push(&frame).is_err(),
            None => self.ends = true,
        }
    }

    /// Sends as much as possible without blocking.
    pub(super) fn write(&mut self, now: Duration) -> ConnectionOutcome {
        if !self.out.is_empty() {
            if self.out.flush(&self.stream).is_err() {
                return ConnectionOutcome::Closed;
            }
            if !self.out.is_empty() {
                return ConnectionOutcome::Continue;
            }
            self.deadline = now + IDLE_TIMEOUT;
        }
        if self.ends {
            ConnectionOutcome::Closed
        } else {
            ConnectionOutcome::Continue
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Returns the HTTP response with the metrics, or `404 Not Found` for `None`.
fn response(metrics: Option<String>) -> Vec<u8> {
    let (status, body) = match metrics {
        Some(metrics) => ("200 OK", metrics),
        None => ("404 Not Found", "only /metrics is here\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: \
         {length}\r\nConnection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}
