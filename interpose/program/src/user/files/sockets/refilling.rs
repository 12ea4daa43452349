//! Restoration of the options and the content of sockets.
#![allow(unsafe_code)]

use super::queues::{self, content, drain, send_all};
use super::socket::Socket;
use super::{rebuilding, tcp};
use std::collections::BTreeMap;
use std::io;

/// Restores options and content of existing sockets.
pub fn fill(all: &BTreeMap<i32, &Socket>) -> io::Result<()> {
    for (&fd, socket) in all {
        match socket.backlog {
            Some(backlog) => rebuilding::empty_listener(fd, backlog),
            None if socket.has_address() => rebuilding::prepare_for_content(fd, socket),
            None => socket.options.apply(fd),
        }
    }
    for (&fd, socket) in all.iter().filter(|(_, socket)| socket.peer().is_some()) {
        let is_other_end = |(_, other): &(&i32, &&Socket)| Some(other.number) == socket.peer();
        let Some((&other, _)) = all.iter().find(is_other_end) else {
            continue;
        };
        refill(fd, other, socket)?;
    }
    for (&fd, socket) in all {
        socket.options.apply(fd);
        let directions = match socket.is_shut {
            1 => libc::SHUT_RD,
            2 => libc::SHUT_WR,
            3 => libc::SHUT_RDWR,
            _ => continue,
        };
        // SAFETY: shutdown(2) accesses no memory.
        unsafe { libc::shutdown(fd, directions) };
    }
    Ok(())
}

/// Replaces the content of a socket; the content is sent from its other end.
fn refill(fd: i32, other: i32, socket: &Socket) -> io::Result<()> {
    let has_arrived = || !socket.has_address() || tcp::wait_for_arrival(other, fd);
    if has_arrived() && content(fd).is_ok_and(|now| now == socket.content) {
        return Ok(());
    }
    drain(fd);
    if socket.has_address() {
        queues::drain_connection(fd, other);
    }
    send_all(other, &socket.content)?;
    has_arrived();
    Ok(())
}
