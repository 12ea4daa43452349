//! Connection to ckptd whose operations never exceed their time limits.

use crate::io::{Interest, wait_ready};
use crate::{Answer, Decoder, Request, WireError, auth, encode};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Address of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonAddress {
    Local(PathBuf),
    /// Another node, by a numeric address only: name lookups may take any time.
    Remote(SocketAddr),
}

impl DaemonAddress {
    /// Parses `PATH` or `tcp:ADDRESS:PORT`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("tcp:") {
            Some(address) => address.parse().map(Self::Remote).map_err(|_| {
                format!("`{text}` is not tcp:ADDRESS:PORT with an address in numbers")
            }),
            None if text.starts_with('/') => Ok(Self::Local(text.into())),
            None => Err(format!(
                "`{text}` is neither an absolute path of a socket nor tcp:ADDRESS:PORT"
            )),
        }
    }
}

impl fmt::Display for DaemonAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Remote(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Reason why no answer was received.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The daemon is unreachable, or the connection has failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The received bytes are not an answer.
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("not completed within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The daemon refuses this client.
    #[error("refused: {0}")]
    Closed(String),
    /// The answer belongs to another request.
    #[error("the answer does not belong to the request")]
    Unexpected,
    /// The request does not fit into a message.
    #[error("the request is too long")]
    TooLong,
}

trait Stream: Read + Write + AsFd + Send {}
impl<S: Read + Write + AsFd + Send> Stream for S {}

/// Connection to a daemon.
///
/// An error of a request closes the connection, because a part of the request may have been sent,
/// or its answer may still arrive. Later requests fail.
pub struct Client {
    /// `None` after an error.
    stream: Option<Box<dyn Stream>>,
    decoder: Decoder,
}

impl Client {
    /// Connects, and over TCP proves knowledge of the token.
    ///
    /// The number of the connection's descriptor is at least `lowest_fd`.
    pub fn connect(
        address: &DaemonAddress,
        token: Option<&[u8]>,
        limit: Duration,
        lowest_fd: i32,
    ) -> Result<Self, ClientError> {
        let until = Instant::now() + limit;
        let stream: Box<dyn Stream> = match address {
            DaemonAddress::Local(path) => Box::new(connect_local(path, lowest_fd)?),
            DaemonAddress::Remote(address) => {
                let stream = TcpStream::connect_timeout(address, limit)?;
                stream.set_nonblocking(true)?;
                let _ = stream.set_nodelay(true);
                let stream = fcntl_dupfd_cloexec(&stream, lowest_fd).map_err(io::Error::from)?;
                Box::new(TcpStream::from(stream))
            }
        };
        let mut client = Client::new(stream);
        if let DaemonAddress::Remote(_) = address {
            client.authenticate(token.unwrap_or_default(), until, limit)?;
        }
        Ok(client)
    }

    fn new(stream: Box<dyn Stream>) -> Client {
        Client {
            stream: Some(stream),
            decoder: Decoder::default(),
        }
    }

    fn authenticate(
        &mut self,
        token: &[u8],
        until: Instant,
        limit: Duration,
    ) -> Result<(), ClientError> {
        let Answer::Challenge { nonce } = self.answer(until, limit)? else {
            return Err(ClientError::Unexpected);
        };
        let proof = auth::proof(auth::ProofPurpose::Client, token, &nonce);
        self.send(&Request::Prove { proof }, until, limit)?;
        match self.answer(until, limit)? {
            Answer::Welcome => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// Fails if no answer was received within the limit.
    pub fn request(&mut self, request: &Request, limit: Duration) -> Result<Answer, ClientError> {
        let until = Instant::now() + limit;
        let sent = self.send(request, until, limit);
        let answer = sent.and_then(|()| self.answer(until, limit));
        self.close_after_error(answer)
    }

    /// Sends a request that has no answer, without waiting.
    ///
    /// # Errors
    /// Fails with [`ClientError::TimedOut`] if the connection does not accept the whole request at
    /// once.
    pub fn notify(&mut self, request: &Request) -> Result<(), ClientError> {
        let sent = self.send(request, Instant::now(), Duration::ZERO);
        self.close_after_error(sent)
    }

    fn close_after_error<T>(&mut self, result: Result<T, ClientError>) -> Result<T, ClientError> {
        if result.is_err() {
            self.stream = None;
        }
        result
    }

    fn send(
        &mut self,
        request: &Request,
        until: Instant,
        limit: Duration,
    ) -> Result<(), ClientError> {
        let stream = open_stream(&mut self.stream)?;
        let frame = encode(request).ok_or(ClientError::TooLong)?;
        let mut rest = &frame[..];
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(length) => rest = &rest[length..],
                Err(error) => {
                    wait_unless_failed(error, stream.as_fd(), Interest::WRITE, until, limit)?
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, until: Instant, limit: Duration) -> Result<Answer, ClientError> {
        let stream = open_stream(&mut self.stream)?;
        let mut buffer = [0; 4096];
        loop {
            match self.decoder.take()? {
                Some(Answer::Closed(why)) => return Err(ClientError::Closed(why)),
                Some(answer) => return Ok(answer),
                None => {}
            }
            match stream.read(&mut buffer) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(length) => self.decoder.feed(&buffer[..length]),
                Err(error) => {
                    wait_unless_failed(error, stream.as_fd(), Interest::READ, until, limit)?
                }
            }
        }
    }
}

/// Returns the stream; fails if an error has closed the connection.
fn open_stream(stream: &mut Option<Box<dyn Stream>>) -> io::Result<&mut dyn Stream> {
    let closed = || io::Error::new(io::ErrorKind::NotConnected, "the connection was closed");
    Ok(&mut **stream.as_mut().ok_or_else(closed)?)
}

/// Connects a Unix socket without waiting; fails if the daemon accepts no connections now.
fn connect_local(path: &std::path::Path, lowest_fd: i32) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(fcntl_dupfd_cloexec(&socket, lowest_fd)?.into())
}

/// Waits until the descriptor is ready if the error is `WouldBlock`.
///
/// Returns at once if the error is `Interrupted`, and fails with any other error.
fn wait_unless_failed(
    error: io::Error,
    fd: BorrowedFd<'_>,
    interest: Interest,
    until: Instant,
    limit: Duration,
) -> Result<(), ClientError> {
    match error.kind() {
        io::ErrorKind::Interrupted => return Ok(()),
        io::ErrorKind::WouldBlock => {}
        _ => return Err(error.into()),
    }
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ClientError::TimedOut(limit));
    }
    // If the wait has ended early, the caller retries and waits for the rest of the time.
    wait_ready(&fd, interest, left)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connection accepts only a part of a notification.
    ///
    /// The client sends no other message behind that part, and closes the connection.
    #[test]
    fn a_connection_is_closed_after_a_notification_that_was_sent_in_part() {
        let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
        near.set_nonblocking(true).expect("set");
        let limit = Some(Duration::from_secs(10));
        far.set_read_timeout(limit).expect("set");
        let mut client = Client::new(Box::new(near));
        let request = Request::Replenish {
            job: "j".repeat(50_000),
            spares: 0,
            aim: 1,
        };
        while client.notify(&request).is_ok() {}
        // The daemon reads a message, and makes room for another one by that.
        let mut message = encode(&request).expect("short enough");
        far.read_exact(&mut message).expect("sent");
        let second = client.notify(&Request::Beat);
        assert!(matches!(second, Err(ClientError::Io(_))), "{second:?}");
        far.read_to_end(&mut message).expect("closed by the client");
    }

    /// The answer to a request arrives after the time limit.
    ///
    /// The client does not take it for the answer to the next request.
    #[test]
    fn a_late_answer_is_not_that_of_the_next_request() {
        let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
        near.set_nonblocking(true).expect("set");
        let mut client = Client::new(Box::new(near));
        let late = client.request(&Request::Status, Duration::from_millis(1));
        assert!(matches!(late, Err(ClientError::TimedOut(_))), "{late:?}");
        let _ = far.write_all(&encode(&Answer::Status(Vec::new())).expect("short"));
        let next = client.request(&Request::Leave, Duration::from_secs(10));
        assert!(next.is_err(), "{next:?}");
    }
}
