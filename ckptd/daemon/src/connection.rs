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

/// Time limit for the rest of a message that a client has begun.
const REST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a client without messages is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of bytes that are read from a client before they are decoded.
const CHUNK: usize = 16 << 10;
/// Limit of bytes that are read from a client before other clients are served.
const MAX_READ_PER_TURN: usize = 64 << 10;
/// Longest request for metrics, in bytes.
const LONGEST_REQUEST: usize = 4096;
/// Limit of unsent bytes for a client.
const MAX_UNSENT: usize = 2 << 20;

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
    /// The client has closed the connection, or has received its answer.
    Closed,
    /// The client is disconnected; the reason.
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
    pub(super) fn frames(now: Duration, stream: Stream, who: ClientIdentity) -> Self {
        let mut connection =
            Self::new(now, stream, ClientProtocol::Frames(Mailbox::default(), who));
        if let ClientProtocol::Frames(_, ClientIdentity::Unauthenticated { nonce }) =
            &connection.protocol
        {
            let nonce = *nonce;
            connection.send(&Answer::Challenge { nonce });
        }
        connection
    }

    /// Returns the connection of a client that requests metrics.
    pub(super) fn text(now: Duration, stream: Stream) -> Self {
        Self::new(now, stream, ClientProtocol::Text(Mailbox::default()))
    }

    fn new(now: Duration, stream: Stream, speaks: ClientProtocol) -> Self {
        Self {
            stream,
            protocol: speaks,
            out: Outbox::new(MAX_UNSENT),
            is_flooded: false,
            ends: false,
            deadline: now + REST_TIMEOUT,
        }
    }

    /// Returns the identity of the client, if it sends frames.
    pub(super) fn identity(&self) -> Option<&ClientIdentity> {
        match &self.protocol {
            ClientProtocol::Frames(_, who) => Some(who),
            ClientProtocol::Text(_) => None,
        }
    }

    /// True if the client has not authenticated, and may be displaced by others.
    pub(super) fn is_unknown(&self) -> bool {
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

    /// Returns the time limit for the client's next step; spares send beats more often.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Reads and handles available data.
    pub(super) fn read(
        &mut self,
        now: Duration,
        service: &mut Service,
        connections: usize,
    ) -> ConnectionOutcome {
        let mut total = 0;
        while total < MAX_READ_PER_TURN && !self.ends {
            let was_waiting = self.is_waiting();
            let Ok(got) = self.fill() else {
                return ConnectionOutcome::Closed;
            };
            if got > 0 {
                match self.take(now, was_waiting, service, connections) {
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
    fn fill(&mut self) -> io::Result<usize> {
        let room = self.room().min(CHUNK);
        match &mut self.protocol {
            ClientProtocol::Frames(mailbox, _) => mailbox.fill(&self.stream, room),
            ClientProtocol::Text(mailbox) => mailbox.fill(&self.stream, room),
        }
    }

    /// True if part of a message has arrived.
    fn is_waiting(&mut self) -> bool {
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

    fn take(
        &mut self,
        now: Duration,
        was_waiting: bool,
        service: &mut Service,
        connections: usize,
    ) -> ConnectionOutcome {
        let (decoder, who) = match &mut self.protocol {
            ClientProtocol::Frames(mailbox, who) => (mailbox.decoder(), who),
            ClientProtocol::Text(mailbox) => {
                let MetricsRequest(request) = mailbox.decoder();
                if request.windows(4).any(|window| window == b"\r\n\r\n") {
                    let is_for_figures =
                        request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
                    let response = response(is_for_figures.then(|| service.metrics(connections)));
                    self.is_flooded |= self.out.push(&response).is_err();
                    self.ends = true;
                }
                return match request.len() > LONGEST_REQUEST {
                    true => ConnectionOutcome::Rejected("a request that is too long"),
                    false => ConnectionOutcome::Continue,
                };
            }
        };
        let mut replies = Vec::new();
        let mut is_garbage = false;
        loop {
            let taken = match who {
                ClientIdentity::Unauthenticated { .. } => decoder.take_unauthenticated::<Request>(),
                ClientIdentity::Authenticated { .. } => decoder.take::<Request>(),
            };
            match taken {
                Ok(Some(ask)) => {
                    self.deadline = now + IDLE_TIMEOUT;
                    let reply = service.handle(now, who, ask);
                    let is_end = matches!(reply, Reply::End(_));
                    replies.push(reply);
                    if is_end {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    replies.push(Reply::End(error.to_string()));
                    is_garbage = true;
                    break;
                }
            }
        }
        // The time limit restarts with the incomplete message after the last complete one.
        if decoder.incomplete_bytes() > 0 && !(was_waiting && replies.is_empty()) {
            self.deadline = now + REST_TIMEOUT;
        }
        for reply in replies {
            match reply {
                Reply::Nothing => {}
                Reply::Send(answer) => self.send(&answer),
                Reply::End(why) => {
                    service.counters.turned_away += u64::from(is_garbage || self.is_unknown());
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

/// Returns a response with the metrics, or an error for other paths.
fn response(figures: Option<String>) -> Vec<u8> {
    let (status, body) = match figures {
        Some(figures) => ("200 OK", figures),
        None => ("404 Not Found", "only /metrics is here\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: \
         {length}\r\nConnection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}
