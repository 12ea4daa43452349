//! Messages that wait in sockets: copying without receiving them, discarding, and sending.
//!
//! MSG_PEEK reads unreceived messages one by one (socket(7), SO_PEEK_OFF).
#![allow(unsafe_code)]

use super::socket_options::{self, PEEK_OFFSET};
use super::tcp::{self, MAX_CONTENT, MAX_WAIT, TOO_MUCH};
use crate::user::open_descriptors;
use crate::user::open_descriptors::stat;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Inodes of sockets in which a message of length zero was found.
///
/// MSG_PEEK skips an empty message that it has returned before (`__skb_try_recv_from_queue`).
static SOCKETS_WITH_EMPTY_MESSAGE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

pub const EMPTY_MESSAGE: &str =
    "it holds a message of length zero; let the program receive it sooner";

/// Returns a copy of the messages that wait in the socket.
///
/// # Errors
/// Fails with the reason and the remedy if the messages cannot be copied.
pub fn content(fd: i32) -> Result<Vec<Vec<u8>>, &'static str> {
    let inode = stat(fd).map_or(0, |file_stat| file_stat.st_ino);
    let mut with_empty = SOCKETS_WITH_EMPTY_MESSAGE
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if with_empty.contains(&inode) && open_descriptors::events(fd, libc::POLLIN) & libc::POLLIN != 0
    {
        return Err(EMPTY_MESSAGE);
    }
    let offset = PEEK_OFFSET.read(fd);
    PEEK_OFFSET.write_number(fd, 0);
    let found = match tcp::is_tcp(fd) {
        true => tcp::content(fd),
        false => all_messages(fd),
    };
    PEEK_OFFSET.write(fd, &offset);
    match found {
        Err(EMPTY_MESSAGE) => with_empty.insert(inode),
        _ => with_empty.remove(&inode),
    };
    found
}

/// Reads messages from the socket's peek offset on.
fn all_messages(fd: i32) -> Result<Vec<Vec<u8>>, &'static str> {
    let kind = socket_options::number(fd, libc::SO_TYPE);
    let mut messages: Vec<Vec<u8>> = Vec::new();
    while let Some(message) = peek(fd)? {
        let is_end = kind != libc::SOCK_DGRAM
            && open_descriptors::events(fd, libc::POLLRDHUP) & libc::POLLRDHUP != 0;
        match messages.last_mut() {
            _ if message.is_empty() && is_end => break,
            _ if message.is_empty() => return Err(EMPTY_MESSAGE),
            Some(last) if kind == libc::SOCK_STREAM => last.extend(message),
            _ => messages.push(message),
        }
        if messages.iter().map(Vec::len).sum::<usize>() > MAX_CONTENT {
            return Err(TOO_MUCH);
        }
    }
    Ok(messages)
}

/// Reads the message at the socket's peek offset; `None` if no message waits there.
fn peek(fd: i32) -> Result<Option<Vec<u8>>, &'static str> {
    let mut bytes = vec![0u8; 1 << 18];
    let mut buffer = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: recvmsg(2) into a buffer of this function, without room for descriptors.
    let (length, flags) = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        (header.msg_iov, header.msg_iovlen) = (&raw mut buffer, 1);
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

/// Sends messages; blocks only while a TCP connection has no room.
pub fn send_all(fd: i32, messages: &[Vec<u8>]) -> io::Result<()> {
    for message in messages {
        let mut rest = message.as_slice();
        loop {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: send(2) of a valid buffer.
            let sent = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
            match usize::try_from(sent) {
                Ok(sent) => rest = &rest[sent..],
                Err(_) if tcp::is_tcp(fd) && tcp::wait_for_room(fd) => {}
                Err(_) => return Err(io::Error::last_os_error()),
            }
            if rest.is_empty() {
                break;
            }
        }
    }
    Ok(())
}

/// Receives and discards all messages that wait.
pub fn drain(fd: i32) {
    let mut bytes = [0u8; 4096];
    let is_stream = socket_options::number(fd, libc::SO_TYPE) == libc::SOCK_STREAM;
    loop {
        // SAFETY: recv(2) into a buffer of this function.
        let count = unsafe {
            libc::recv(
                fd,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if count < 0 || is_stream && count == 0 {
            return;
        }
    }
}

/// Receives and discards at `fd` all data that `other`, its other end, has sent.
///
/// Ends after [`MAX_WAIT`], even if data is still in flight.
pub fn drain_connection(fd: i32, other: i32) {
    let start = Instant::now();
    while !(tcp::wait_for_arrival(other, fd) && tcp::waiting(fd) == 0) && start.elapsed() < MAX_WAIT
    {
        drain(fd);
    }
}
