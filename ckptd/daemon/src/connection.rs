//! Connection of a client.
//!
//! Socket, bytes received and bytes to send, and the deadline for the client's next step.

use super::service::{Reply, Service, Who};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use understudy_wire::io::{Interest, Mailbox, Outbox};
use understudy_wire::{Answer, Ask, Decoder, encode};

/// Within this time a client must have sent the rest of a message that it has begun.
const REST_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that has sent no message and taken no answer for so long is turned away.
const IDLE: Duration = Duration::from_secs(30);
/// Most bytes that are read from a client before they are decoded.
const CHUNK: usize = 16 << 10;
/// What is read from one client before the others have their turn.
const TURN: usize = 64 << 10;
/// The longest request of somebody who wants the figures.
const LONGEST_REQUEST: usize = 4096;
/// What may wait to be sent to one client.
const MOST_TO_SEND: usize = 2 << 20;

/// A socket of either kind.
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

/// What a client speaks.
#[derive(Debug)]
enum Speaks {
    Frames(Mailbox<Decoder>, Who),
    /// Hypertext; only to ask for the figures.
    Text(Mailbox<Request>),
}

/// Bytes of a request for the figures.
#[derive(Debug, Default)]
struct Request(Vec<u8>);

impl understudy_wire::io::Decoder for Request {
    fn feed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    /// The client has closed it, or has got what it wanted.
    Over,
    /// The client is turned away.
    Away(&'static str),
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    speaks: Speaks,
    out: Outbox,
    /// True if an answer had no room in `out`.
    is_flooded: bool,
    /// It ends when `out` is sent.
    ends: bool,
    /// Until when it must do something.
    deadline: Duration,
}

impl Connection {
    /// A client that speaks frames. One that has to prove something is challenged.
    pub(super) fn frames(now: Duration, stream: Stream, who: Who) -> Self {
        let mut connection = Self::new(now, stream, Speaks::Frames(Mailbox::default(), who));
        if let Speaks::Frames(_, Who::Unknown { nonce }) = &connection.speaks {
            let nonce = *nonce;
            connection.send(&Answer::Challenge { nonce });
        }
        connection
    }

    /// A client that wants the figures.
    pub(super) fn text(now: Duration, stream: Stream) -> Self {
        Self::new(now, stream, Speaks::Text(Mailbox::default()))
    }

    fn new(now: Duration, stream: Stream, speaks: Speaks) -> Self {
        Self {
            stream,
            speaks,
            out: Outbox::new(MOST_TO_SEND),
            is_flooded: false,
            ends: false,
            deadline: now + REST_TIMEOUT,
        }
    }

    /// Who it is, if it speaks frames.
    pub(super) fn who(&self) -> Option<&Who> {
        match &self.speaks {
            Speaks::Frames(_, who) => Some(who),
            Speaks::Text(_) => None,
        }
    }

    /// Whether it may be turned away for the sake of others: it has not proved anything.
    pub(super) fn is_unknown(&self) -> bool {
        !matches!(&self.speaks, Speaks::Frames(_, Who::Known { .. }))
    }

    /// What it waits for. One that ends is not read any more.
    pub(super) fn interest(&self) -> Interest {
        Interest::new(!self.ends, !self.out.is_empty())
    }

    /// Until when it must do something. Spares beat more often than that.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// There is something to read.
    pub(super) fn read(
        &mut self,
        now: Duration,
        service: &mut Service,
        connections: usize,
    ) -> Goes {
        let mut total = 0;
        while total < TURN && !self.ends {
            let was_waiting = self.is_waiting();
            let Ok(got) = self.fill() else {
                return Goes::Over;
            };
            if got > 0 {
                match self.take(now, was_waiting, service, connections) {
                    Goes::On => total += got,
                    other => return other,
                }
            } else if self.has_ended() {
                return Goes::Over;
            } else {
                break;
            }
        }
        self.write(now)
    }

    /// Reads bytes that are there, and returns how many.
    fn fill(&mut self) -> io::Result<usize> {
        let room = self.room().min(CHUNK);
        match &mut self.speaks {
            Speaks::Frames(mailbox, _) => mailbox.fill(&self.stream, room),
            Speaks::Text(mailbox) => mailbox.fill(&self.stream, room),
        }
    }

    /// True if a part of a message waits for its rest.
    fn is_waiting(&mut self) -> bool {
        match &mut self.speaks {
            Speaks::Frames(mailbox, _) => mailbox.decoder().waiting() > 0,
            Speaks::Text(_) => false,
        }
    }

    /// True if the client has closed its end.
    fn has_ended(&self) -> bool {
        match &self.speaks {
            Speaks::Frames(mailbox, _) => mailbox.has_ended(),
            Speaks::Text(mailbox) => mailbox.has_ended(),
        }
    }

    /// Returns the number of bytes that may be read at once.
    ///
    /// Little is read of a client that has not authenticated.
    fn room(&mut self) -> usize {
        match &mut self.speaks {
            Speaks::Frames(mailbox, Who::Unknown { .. }) => {
                mailbox.decoder().room_unauthenticated()
            }
            Speaks::Frames(..) | Speaks::Text(_) => usize::MAX,
        }
    }

    fn take(
        &mut self,
        now: Duration,
        was_waiting: bool,
        service: &mut Service,
        connections: usize,
    ) -> Goes {
        let (decoder, who) = match &mut self.speaks {
            Speaks::Frames(mailbox, who) => (mailbox.decoder(), who),
            Speaks::Text(mailbox) => {
                let Request(request) = mailbox.decoder();
                if request.windows(4).any(|window| window == b"\r\n\r\n") {
                    let is_for_figures =
                        request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
                    let response = response(is_for_figures.then(|| service.metrics(connections)));
                    self.is_flooded |= self.out.push(&response).is_err();
                    self.ends = true;
                }
                return match request.len() > LONGEST_REQUEST {
                    true => Goes::Away("a request that is too long"),
                    false => Goes::On,
                };
            }
        };
        let mut replies = Vec::new();
        let mut is_garbage = false;
        loop {
            let taken = match who {
                Who::Unknown { .. } => decoder.take_unauthenticated::<Ask>(),
                Who::Known { .. } => decoder.take::<Ask>(),
            };
            match taken {
                Ok(Some(ask)) => {
                    self.deadline = now + IDLE;
                    let reply = service.ask(now, who, ask);
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
        // Only what follows the last whole message is timed from here on.
        if decoder.waiting() > 0 && !(was_waiting && replies.is_empty()) {
            self.deadline = now + REST_TIMEOUT;
        }
        for reply in replies {
            match reply {
                Reply::Nothing => {}
                Reply::Send(answer) => self.send(&answer),
                Reply::End(why) => {
                    service.counters.turned_away += u64::from(is_garbage || self.is_unknown());
                    log::info!("a client is turned away: {why}");
                    self.send(&Answer::Closed(why));
                    self.ends = true;
                }
            }
        }
        match self.is_flooded {
            true => Goes::Away("it does not take what it has asked for"),
            false => Goes::On,
        }
    }

    fn send(&mut self, answer: &Answer) {
        match encode(answer) {
            Some(frame) => self.is_flooded |= self.out.push(&frame).is_err(),
            None => self.ends = true,
        }
    }

    /// Sends what can be sent now.
    pub(super) fn write(&mut self, now: Duration) -> Goes {
        if !self.out.is_empty() {
            if self.out.flush(&self.stream).is_err() {
                return Goes::Over;
            }
            if !self.out.is_empty() {
                return Goes::On;
            }
            self.deadline = now + IDLE;
        }
        if self.ends { Goes::Over } else { Goes::On }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The figures, or that there is nothing else.
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
