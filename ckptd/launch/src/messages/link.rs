//! Connection between a node and the leader of its job: TCP, with frames of [`understudy_wire`].
//!
//! Only [`Link::call`], by which a node connects, and [`Link::finish`] block.
//!
//! Before any other message, both sides prove that they have the job's token. The leader sends a
//! nonce, the node answers with a proof and a nonce of its own, and the leader answers with a
//! proof.

use bincode::{Decode, Encode};
use rustix::net::sockopt::set_tcp_user_timeout;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use understudy_wire::auth::{self, ProofPurpose};
use understudy_wire::io::{Interest, Mailbox, Outbox, wait_ready};
use understudy_wire::{FrameDecoder, WireError, encode_within};

/// Longest payload: fence data of all nodes, a few KiB for each rank.
const MAX_PAYLOAD_BYTES: usize = 256 << 20;
/// Limit of memory for decoding a payload.
const MAX_DECODED_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;
/// Limit of unsent bytes, beyond which the peer counts as disconnected.
const MAX_UNSENT_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;
/// Limit of bytes that are read before other connections are served.
const MAX_READ_BYTES_PER_TURN: usize = 1 << 20;
/// Interval of attempts to send the last bytes.
const FINISH_PERIOD: Duration = Duration::from_millis(10);
/// Time by which a connection outlives the longest silence of its peer.
const SILENCE_MARGIN: Duration = Duration::from_secs(10);
/// Time limit of the first connection to an address.
///
/// The kernel repeats a lost packet after 1 s.
const FIRST_ATTEMPT: Duration = Duration::from_secs(2);
/// Time limit of a greeting.
pub const GREETING: Duration = Duration::from_secs(10);

/// Messages of a greeting, in order.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Greeting {
    Challenge {
        nonce: [u8; 32],
    },
    Node {
        proof: [u8; 32],
        nonce: [u8; 32],
        node: u32,
        /// Name of the node's host (uname(2)).
        host: String,
    },
    Leader {
        proof: [u8; 32],
        /// Time for which a silent node is waited for.
        node_timeout: Duration,
    },
}

/// An end of a connection between a node and the leader.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    mailbox: Mailbox<FrameDecoder<MAX_PAYLOAD_BYTES, MAX_DECODED_BYTES>>,
    out: Outbox,
    /// True if a message was too long, or had no room in `out`.
    is_flooded: bool,
}

impl Link {
    /// # Errors
    /// Errors of fcntl(2).
    pub fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        // Without this option the connection is only slower.
        let _ = stream.set_nodelay(true);
        Ok(Link {
            stream,
            mailbox: Mailbox::default(),
            out: Outbox::new(MAX_UNSENT_BYTES),
            is_flooded: false,
        })
    }

    /// Connects to the leader at the first of its addresses that answers.
    ///
    /// An address that does not answer soon is tried once more after the other addresses. Also
    /// returns the time for which the leader waits for a silent node.
    ///
    /// # Errors
    /// Fails if the leader does not answer, or has another token.
    pub fn call(
        leader: &[String],
        token: &[u8],
        node: u32,
        host: &str,
    ) -> io::Result<(Link, Duration)> {
        let call = |address: &SocketAddr, limit| {
            TcpStream::connect_timeout(address, limit)
                .and_then(Link::new)
                .and_then(|link| link.greet(token, node, host))
        };
        let (mut tried, mut silent, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for name in leader {
            // Resolved only now, since a name server may not answer.
            let addresses = name.to_socket_addrs();
            let failure = addresses.as_ref().err();
            errors.extend(failure.map(|error| format!("{name}: {error}")));
            for address in addresses.into_iter().flatten() {
                if tried.contains(&address) {
                    continue;
                }
                tried.push(address);
                match call(&address, FIRST_ATTEMPT) {
                    Ok(called) => return Ok(called),
                    Err(error) if error.kind() == ErrorKind::TimedOut => silent.push(address),
                    Err(error) => errors.push(format!("{address}: {error}")),
                }
            }
        }
        for address in silent {
            match call(&address, GREETING) {
                Ok(called) => return Ok(called),
                Err(error) => errors.push(format!("{address}: {error}")),
            }
        }
        Err(io::Error::other(errors.join(", ")))
    }

    fn greet(mut self, token: &[u8], node: u32, host: &str) -> io::Result<(Link, Duration)> {
        let until = Instant::now() + GREETING;
        let (own, host) = (auth::nonce()?, host.to_owned());
        let Greeting::Challenge { nonce } = self.wait_for(until)? else {
            return Err(ErrorKind::InvalidData.into());
        };
        self.send(&Greeting::Node {
            proof: auth::proof(ProofPurpose::Node, token, &nonce),
            nonce: own,
            node,
            host,
        });
        match self.wait_for(until)? {
            Greeting::Leader {
                proof,
                node_timeout,
            } if auth::verify(ProofPurpose::Leader, &[token.to_vec()], &own, &proof).is_some() => {
                self.survive(node_timeout);
                Ok((self, node_timeout))
            }
            _ => Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "the process at this address does not have the token of the job",
            )),
        }
    }

    /// Blocks until the next message of the greeting arrives.
    fn wait_for(&mut self, until: Instant) -> io::Result<Greeting> {
        loop {
            if let Some(greeting) = self.receive_greeting()? {
                return Ok(greeting);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let _ = wait_ready(&self.stream, self.interest(), left);
        }
    }

    /// Keeps the connection while the network is interrupted for this time.
    ///
    /// The kernel may give up a connection earlier (tcp(7), tcp_retries2). The leader would then
    /// count a node as lost whose timers have not fired.
    pub fn survive(&self, silence: Duration) {
        let limit = (silence + SILENCE_MARGIN).as_millis();
        let limit = limit.min(i32::MAX.unsigned_abs().into()) as u32;
        // All kernels since Linux 2.6.37 have the option.
        let _ = set_tcp_user_timeout(&self.stream, limit);
    }

    /// Returns the operations for which the connection must be polled.
    pub fn interest(&self) -> Interest {
        Interest::new(true, !self.out.is_empty())
    }

    /// Queues a message, and sends as much as possible at once.
    pub fn send(&mut self, message: &impl Encode) {
        let frame = encode_within(message, MAX_PAYLOAD_BYTES);
        let is_taken = frame.is_some_and(|frame| self.out.push(&frame).is_ok());
        self.is_flooded |= !is_taken;
        self.flush();
    }

    /// True if the peer has disconnected, or a message could not be queued.
    pub fn has_ended(&self) -> bool {
        self.is_flooded || self.out.is_closed() || self.mailbox.has_ended()
    }

    fn flush(&mut self) {
        if !self.has_ended() {
            // The outbox is closed after an error.
            let _ = self.out.flush(&self.stream);
        }
    }

    /// Waits until everything has been sent, at most `limit`.
    pub fn finish(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        while !self.out.is_empty() && !self.has_ended() && Instant::now() < until {
            let _ = wait_ready(&self.stream, Interest::WRITE, FINISH_PERIOD);
            self.flush();
        }
    }

    /// Reads at most `limit` bytes.
    fn read(&mut self, limit: usize) -> io::Result<()> {
        self.flush();
        if !self.has_ended() {
            self.mailbox.fill(&self.stream, limit)?;
        }
        Ok(())
    }

    /// Returns the next message of the bytes that were read.
    fn take<M: Decode<()>>(&mut self) -> io::Result<Option<M>> {
        let taken = self.mailbox.decoder().take();
        self.checked(taken)
    }

    fn checked<M>(&self, taken: Result<Option<M>, WireError>) -> io::Result<Option<M>> {
        match taken {
            Ok(None) if self.has_ended() => Err(ErrorKind::UnexpectedEof.into()),
            taken => taken.map_err(|error| io::Error::new(ErrorKind::InvalidData, error)),
        }
    }

    /// Returns the number of bytes that were read and not decoded.
    #[cfg(test)]
    pub fn unread(&mut self) -> usize {
        self.mailbox.decoder().incomplete_bytes()
    }

    /// Receives messages that have arrived.
    ///
    /// At most [`MAX_READ_BYTES_PER_TURN`] bytes are read. The error is set if the peer has
    /// disconnected or a message is malformed.
    pub fn receive<M: Decode<()>>(&mut self) -> (Vec<M>, Option<io::Error>) {
        let mut error = self.read(MAX_READ_BYTES_PER_TURN).err();
        let mut received = Vec::new();
        while error.is_none() {
            match self.take() {
                Ok(Some(message)) => received.push(message),
                Ok(None) => break,
                Err(why) => error = Some(why),
            }
        }
        (received, error)
    }

    /// Receives the next message of a greeting, and nothing else.
    ///
    /// The other side has not authenticated: at most [`understudy_wire::MAX_UNAUTHENTICATED_BYTES`]
    /// bytes are read.
    pub fn receive_greeting(&mut self) -> io::Result<Option<Greeting>> {
        let room = self.mailbox.decoder().room_unauthenticated();
        self.read(room)?;
        let taken = self.mailbox.decoder().take_unauthenticated();
        self.checked(taken)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
