//! Sockets that belong to this process alone: connected pairs (socketpair(2)) and new ones.
//!
//! The socket diagnosis interface tells the other end of a UNIX socket (sock_diag(7)). What waits
//! to be read is read by MSG_PEEK, message by message (socket(7), SO_PEEK_OFF).
#![allow(unsafe_code)]

use super::diagnosis::{Diagnosis, diagnose};
use crate::user::open;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Content of one socket beyond which a checkpoint is refused, in bytes.
const MAX_CONTENT: usize = 16 << 20;

/// Directories of sockets of name services (SSSD, Samba's winbind).
///
/// Their clients in C libraries compare the descriptor before each use, and connect again.
const SERVICES: [&[u8]; 4] = [
    b"/var/lib/sss/pipes/",
    b"/run/samba/winbindd/",
    b"/var/run/samba/winbindd/",
    b"/var/lib/samba/winbindd_privileged/",
];

/// Name of a socket of a client of these.
pub const SERVICE: &[u8] = b"socket of a name service";

/// True for a descriptor of a client of a name service.
pub fn is_of_service(fd: i32) -> bool {
    number_option(fd, libc::SO_DOMAIN) == libc::AF_UNIX
        && address(fd, libc::getpeername).is_some_and(|peer| is_service(&peer))
}

fn is_service(address: &[u8]) -> bool {
    SERVICES.iter().any(|place| address.starts_with(place))
}

/// Restored options: level, option, and size of the value in bytes.
const OPTIONS: [(i32, i32, usize); 16] = [
    (libc::SOL_SOCKET, libc::SO_SNDBUF, 4),
    (libc::SOL_SOCKET, libc::SO_RCVBUF, 4),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 4),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, 4),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, 4),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 4),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 4),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, 4),
    (libc::SOL_SOCKET, libc::SO_PASSCRED, 4),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4),
    (libc::SOL_SOCKET, libc::SO_LINGER, 8),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO, 16),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO, 16),
    (libc::SOL_SOCKET, libc::SO_PEEK_OFF, 4),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 4),
];

/// A socket.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Socket {
    /// Inode.
    number: u64,
    /// Inode of the other end: `None` without one, 0 if that was closed.
    peer: Option<u64>,
    /// Family, type and protocol.
    kind: [i32; 3],
    /// Values of [`OPTIONS`]; empty for one that the socket does not have.
    options: Vec<Vec<u8>>,
    /// Messages that wait to be read; of a stream one at most.
    content: Vec<Vec<u8>>,
    /// Directions that were shut down: 1 for reading, 2 for writing.
    is_shut: u8,
}

/// Reads an option; empty if the socket does not have it.
fn option(fd: i32, level: i32, name: i32, size: usize) -> Vec<u8> {
    let mut value = vec![0u8; size];
    let mut length = size as libc::socklen_t;
    // SAFETY: getsockopt(2) writes `length` bytes at most.
    let rc =
        unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut length) };
    value.truncate(if rc == 0 { length as usize } else { 0 });
    value
}

fn number_option(fd: i32, name: i32) -> i32 {
    let value = option(fd, libc::SOL_SOCKET, name, 4);
    value.try_into().map_or(-1, i32::from_ne_bytes)
}

fn set_option(fd: i32, (level, name, _): (i32, i32, usize), value: &[u8]) {
    let mut value = value.to_vec();
    // The kernel doubles what it is given (socket(7)).
    if level == libc::SOL_SOCKET
        && matches!(name, libc::SO_SNDBUF | libc::SO_RCVBUF)
        && let Ok(bytes) = value.as_slice().try_into()
    {
        value = (i32::from_ne_bytes(bytes) / 2).to_ne_bytes().to_vec();
    }
    // SAFETY: setsockopt(2) with a value of this length.
    unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
}

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

/// Returns an address without its family; `None` if there is none.
fn address(fd: i32, call: NameCall) -> Option<Vec<u8>> {
    const FAMILY: usize = size_of::<libc::sa_family_t>();
    let mut bytes = [0u8; size_of::<libc::sockaddr_un>()];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: getsockname(2) or getpeername(2), which write `length` bytes at most.
    let rc = unsafe { call(fd, bytes.as_mut_ptr().cast(), &raw mut length) };
    let end = (length as usize).min(bytes.len());
    (rc == 0).then(|| bytes.get(FAMILY..end).unwrap_or_default().to_vec())
}

/// Returns the name of the kind of a socket (`kernel_state::DESCRIPTORS`).
pub fn kind(fd: i32, inode: u64, is_here: impl Fn(u64) -> bool) -> String {
    diagnosed_kind(fd, inode, is_here).0
}

/// Returns the name of the kind, and the diagnosis of a pair.
fn diagnosed_kind(
    fd: i32,
    inode: u64,
    is_here: impl Fn(u64) -> bool,
) -> (String, Option<Diagnosis>) {
    let family = match number_option(fd, libc::SO_DOMAIN) {
        libc::AF_UNIX => "unix",
        libc::AF_INET => "inet",
        libc::AF_INET6 => "inet6",
        other => return (format!("socket:family {other}"), None),
    };
    let own = address(fd, libc::getsockname).unwrap_or_default();
    let peer = address(fd, libc::getpeername);
    // A port, or a name.
    let is_bound = match family {
        "unix" => !own.is_empty(),
        _ => own.get(..2) != Some(&[0, 0]),
    };
    let (state, diagnosis) = match peer {
        _ if number_option(fd, libc::SO_ACCEPTCONN) != 0 => ("listener", None),
        Some(peer) if family == "unix" && !is_bound => kind_of_connected(inode, &peer, is_here),
        Some(_) => ("connected", None),
        None if is_bound => ("bound", None),
        None => ("new", None),
    };
    (format!("socket:{family}:{state}"), diagnosis)
}

fn kind_of_connected(
    inode: u64,
    peer: &[u8],
    is_here: impl Fn(u64) -> bool,
) -> (&'static str, Option<Diagnosis>) {
    if !peer.is_empty() {
        let name = if is_service(peer) {
            "service"
        } else {
            "client"
        };
        return (name, None);
    }
    let is_pair = |found: &Diagnosis| found.peer == 0 || is_here(found.peer);
    let diagnosis = diagnose(inode).filter(is_pair);
    (
        if diagnosis.is_some() { "pair" } else { "other" },
        diagnosis,
    )
}

/// Returns the reason why a pair that is all in this process cannot be saved.
pub fn objection(fd: i32) -> Option<String> {
    content(fd).err().map(Into::into)
}

/// Inodes of sockets in which a message of length zero was seen.
///
/// MSG_PEEK passes over a message that it has shown before (`__skb_try_recv_from_queue`).
static WITH_EMPTY_MESSAGE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

const EMPTY_MESSAGE: &str = "it holds a message of length zero; let the program receive it sooner";

/// Returns the messages that wait to be read, which stay in the socket.
fn content(fd: i32) -> Result<Vec<Vec<u8>>, &'static str> {
    let inode = super::stat(fd).map_or(0, |about| about.st_ino);
    let mut with_empty = WITH_EMPTY_MESSAGE
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if with_empty.contains(&inode) && open::events(fd, libc::POLLIN) & libc::POLLIN != 0 {
        return Err(EMPTY_MESSAGE);
    }
    let offset = option(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, 4);
    let set_offset = |value: &[u8]| {
        set_option(fd, (libc::SOL_SOCKET, libc::SO_PEEK_OFF, 4), value);
    };
    set_offset(&0i32.to_ne_bytes());
    let found = all_messages(fd);
    set_offset(&offset);
    match found {
        Err(EMPTY_MESSAGE) => with_empty.insert(inode),
        _ => with_empty.remove(&inode),
    };
    found
}

/// Reads messages from the socket's offset on.
fn all_messages(fd: i32) -> Result<Vec<Vec<u8>>, &'static str> {
    let kind = number_option(fd, libc::SO_TYPE);
    let mut messages: Vec<Vec<u8>> = Vec::new();
    while let Some(message) = peek(fd)? {
        let is_end =
            kind != libc::SOCK_DGRAM && open::events(fd, libc::POLLRDHUP) & libc::POLLRDHUP != 0;
        match messages.last_mut() {
            _ if message.is_empty() && is_end => break,
            _ if message.is_empty() => return Err(EMPTY_MESSAGE),
            Some(last) if kind == libc::SOCK_STREAM => last.extend(message),
            _ => messages.push(message),
        }
        if messages.iter().map(Vec::len).sum::<usize>() > MAX_CONTENT {
            return Err("it holds more than 16 MiB; let the program read them sooner");
        }
    }
    Ok(messages)
}

/// Reads the message at the socket's offset for that; `None` if nothing waits there.
fn peek(fd: i32) -> Result<Option<Vec<u8>>, &'static str> {
    let mut bytes = vec![0u8; 1 << 18];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: recvmsg(2) into a buffer of our own, without room for descriptors.
    let (length, flags) = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        let length = libc::recvmsg(fd, &raw mut header, libc::MSG_PEEK | libc::MSG_DONTWAIT);
        (length, header.msg_flags)
    };
    match usize::try_from(length) {
        Ok(_) if flags & libc::MSG_CTRUNC != 0 => {
            Err("it holds descriptors or credentials; let the program receive them sooner")
        }
        Ok(_) if flags & libc::MSG_TRUNC != 0 => {
            Err("it holds a message of more than 256 KiB; let the program receive it sooner")
        }
        Ok(length) => {
            bytes.truncate(length);
            Ok(Some(bytes))
        }
        Err(_) => Ok(None),
    }
}

impl Socket {
    /// Returns what a socket is; `None` if only another process could restore it.
    pub fn of(fd: i32, inode: u64) -> Option<Socket> {
        let (kind, diagnosis) = diagnosed_kind(fd, inode, |_| true);
        let is_pair = diagnosis.is_some();
        if !is_pair && !kind.ends_with(":new") {
            return None;
        }
        let found = diagnosis.unwrap_or_default();
        let read = |&(level, name, size): &(i32, i32, usize)| option(fd, level, name, size);
        Some(Socket {
            number: inode,
            peer: is_pair.then_some(found.peer),
            kind: [libc::SO_DOMAIN, libc::SO_TYPE, libc::SO_PROTOCOL]
                .map(|name| number_option(fd, name)),
            options: OPTIONS.iter().map(read).collect(),
            content: if is_pair {
                content(fd).ok()?
            } else {
                Vec::new()
            },
            is_shut: found.is_shut,
        })
    }

    /// Inode.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Inode of the other end, if that is open.
    pub fn peer(&self) -> Option<u64> {
        self.peer.filter(|&peer| peer != 0)
    }

    /// True if this socket can become `then` without being made anew.
    pub fn can_become(&self, then: &Socket) -> bool {
        let is_orphan = then.peer == Some(0);
        self.kind == then.kind
            && (self.number, self.peer) == (then.number, then.peer)
            && self.is_shut & !then.is_shut == 0
            && (!is_orphan || self.content == then.content)
    }

    /// Makes a socket, or both sockets of a pair.
    ///
    /// An end whose other end was closed has its content.
    pub fn make(&self) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        let [family, kind, protocol] = self.kind;
        let mut ends = [-1; 2];
        // SAFETY: socket(2) or socketpair(2), whose descriptors nobody else has.
        let made = unsafe {
            if self.peer.is_none() {
                ends[0] = libc::socket(family, kind, protocol);
                ends[0] >= 0
            } else {
                libc::socketpair(family, kind, protocol, ends.as_mut_ptr()) == 0
            }
        };
        if !made {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
        let other = self.peer.is_some().then(|| own(ends[1]));
        if self.peer == Some(0) {
            self.set_options(ends[0]);
            send_all(ends[1], &self.content)?;
            return Ok((own(ends[0]), None));
        }
        Ok((own(ends[0]), other))
    }

    fn set_options(&self, fd: i32) {
        for (&(level, name, size), then) in OPTIONS.iter().zip(&self.options) {
            if !then.is_empty() && option(fd, level, name, size) != *then {
                set_option(fd, (level, name, size), then);
            }
        }
    }
}

/// Sends messages without waiting.
fn send_all(fd: i32, messages: &[Vec<u8>]) -> io::Result<()> {
    for message in messages {
        let mut rest = message.as_slice();
        loop {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: send(2) of a valid buffer.
            let sent = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
            match usize::try_from(sent) {
                Ok(sent) => rest = &rest[sent..],
                Err(_) => return Err(io::Error::last_os_error()),
            }
            if rest.is_empty() {
                break;
            }
        }
    }
    Ok(())
}

/// Reads everything that waits.
fn drain(fd: i32) {
    let mut bytes = [0u8; 4096];
    let is_stream = number_option(fd, libc::SO_TYPE) == libc::SOCK_STREAM;
    loop {
        // SAFETY: recv(2) into a buffer of our own.
        let got = unsafe {
            libc::recv(
                fd,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if got < 0 || is_stream && got == 0 {
            return;
        }
    }
}

/// Gives sockets that are there their options and content of the checkpoint.
pub fn fill(all: &BTreeMap<i32, &Socket>) -> io::Result<()> {
    for (&fd, socket) in all {
        socket.set_options(fd);
    }
    for (&fd, socket) in all.iter().filter(|(_, socket)| socket.peer().is_some()) {
        let is_other = |(_, other): &(&i32, &&Socket)| Some(other.number) == socket.peer();
        let Some((&other, _)) = all.iter().find(is_other) else {
            continue;
        };
        if content(fd).is_ok_and(|now| now == socket.content) {
            continue;
        }
        drain(fd);
        send_all(other, &socket.content)?;
    }
    for (&fd, socket) in all {
        let how = match socket.is_shut {
            1 => libc::SHUT_RD,
            2 => libc::SHUT_WR,
            3 => libc::SHUT_RDWR,
            _ => continue,
        };
        // SAFETY: shutdown(2) of the program's socket.
        unsafe { libc::shutdown(fd, how) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn inode(fd: i32) -> u64 {
        super::super::stat(fd).unwrap().st_ino
    }

    fn socket(of: &impl AsRawFd) -> Socket {
        let fd = of.as_raw_fd();
        Socket::of(fd, inode(fd)).expect("a socket that can be saved")
    }

    #[test]
    fn a_pair_is_restored_with_its_content() {
        let (one, other) = UnixDatagram::pair().unwrap();
        for message in [&b"first"[..], b"second"] {
            one.send(message).unwrap();
        }
        let saved = [socket(&one), socket(&other)];
        assert_eq!(saved[0].peer(), Some(saved[1].number()));
        assert_eq!(saved[1].content, [&b"first"[..], b"second"]);
        let (made, peer) = saved[0].make().unwrap();
        let peer = peer.unwrap();
        let all = [(made.as_raw_fd(), &saved[0]), (peer.as_raw_fd(), &saved[1])];
        fill(&all.into_iter().collect()).unwrap();
        assert_eq!(content(peer.as_raw_fd()).unwrap(), saved[1].content);
        // The originals are as they were.
        assert_eq!(socket(&other).content, saved[1].content);
    }

    #[test]
    fn a_socket_without_its_peer_keeps_its_content() {
        let (one, other) = UnixStream::pair().unwrap();
        send_all(one.as_raw_fd(), &[b"left behind".to_vec()]).unwrap();
        drop(one);
        let saved = socket(&other);
        assert_eq!((saved.peer, saved.is_shut), (Some(0), 3));
        let (made, peer) = saved.make().unwrap();
        assert!(peer.is_none());
        assert_eq!(
            content(made.as_raw_fd()).unwrap(),
            [b"left behind".to_vec()]
        );
        assert!(socket(&other).can_become(&saved));
        drain(other.as_raw_fd());
        assert!(!socket(&other).can_become(&saved));
    }

    #[test]
    fn a_message_of_length_zero_is_an_objection_as_long_as_it_waits() {
        let (one, other) = UnixDatagram::pair().unwrap();
        for message in [&b"first"[..], b"", b"third"] {
            one.send(message).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(content(other.as_raw_fd()), Err(EMPTY_MESSAGE));
        }
        drain(other.as_raw_fd());
        assert_eq!(content(other.as_raw_fd()), Ok(Vec::new()));
        one.send(b"fourth").unwrap();
        assert_eq!(content(other.as_raw_fd()), Ok(vec![b"fourth".to_vec()]));
    }

    #[test]
    fn kinds_are_distinguished() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let kind = |of: &dyn AsRawFd| kind(of.as_raw_fd(), inode(of.as_raw_fd()), |_| false);
        assert_eq!(kind(&listener), "socket:inet:listener");
        assert_eq!(kind(&client), "socket:inet:connected");
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(kind(&one), "socket:unix:other");
        assert_eq!(kind(&UnixDatagram::unbound().unwrap()), "socket:unix:new");
    }
}
