//! TCP connections of which this process has both ends (tcp(7)).
//!
//! The ends are matched by their addresses: the local address of one end is the peer address of the
//! other end. At a cut all sent data must have arrived, because data that waits at the sender
//! cannot be read.
#![allow(unsafe_code)]

use super::connection_list::{self, Connection};
use super::endpoint::Endpoint;
use super::socket_options::{self, QUICK_ACK};
use crate::user::open_descriptors;
use crate::user::open_descriptors::stat;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum content of one socket in bytes; with more a checkpoint is refused.
pub const MAX_CONTENT: usize = 16 << 20;

pub const TOO_MUCH: &str = "it holds more than 16 MiB; let the program read the data sooner";

/// Number of bytes that were not sent yet (`<linux/sockios.h>`).
const SIOCOUTQNSD: libc::c_ulong = 0x894b;

/// Maximum wait for an acknowledgement.
///
/// The kernel may delay an acknowledgement by 200 ms (TCP_DELACK_MAX).
const MAX_DELAY_OF_ACK: Duration = Duration::from_millis(300);
/// Maximum wait for room in a connection, for its acceptance, or for its data.
pub const MAX_WAIT: Duration = Duration::from_secs(1);

/// Connection states of `<netinet/tcp.h>` in which both ends are restored.
const RESTORED_STATES: [u8; 4] = [ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT];
const ESTABLISHED: u8 = 1;
const FIN_WAIT1: u8 = 4;
const FIN_WAIT2: u8 = 5;
const CLOSE_WAIT: u8 = 8;

/// Address and port of each end, the local end first.
type Addresses = [(IpAddr, u16); 2];

/// Connected sockets by their addresses: inode and descriptor.
pub struct Connections(BTreeMap<Addresses, (u64, i32)>);

impl Connections {
    /// Collects the connections among these descriptors.
    pub fn among(descriptors: impl Iterator<Item = i32>) -> Connections {
        let entry = |fd| Some((addresses(fd)?, (stat(fd)?.st_ino, fd)));
        let is_inet = |fd: &i32| is_tcp(*fd);
        Connections(descriptors.filter(is_inet).filter_map(entry).collect())
    }

    /// Returns inode and descriptor of the other end, if both ends are restored.
    pub fn other_end(&self, fd: i32, inode: u64) -> Option<(u64, i32)> {
        let [own, peer] = local_addresses(fd)?;
        let other = *self.0.get(&[peer, own])?;
        let is_pair = other.0 != inode && RESTORED_STATES.contains(&state(fd));
        is_pair.then_some(other)
    }
}

/// True if the other end was closed, and no process has it open.
///
/// False while the other end has not acknowledged all data.
pub fn is_orphan(fd: i32) -> bool {
    let Some([own, peer]) = local_addresses(fd) else {
        return false;
    };
    let is_open = |connection: Connection| {
        (connection.own, connection.peer) == (peer, own) && connection.inode != 0
    };
    let is_closed = state(fd) == CLOSE_WAIT && unacknowledged(fd) == 0;
    is_closed && !connection_list::all().any(is_open)
}

fn addresses(fd: i32) -> Option<Addresses> {
    Some([Endpoint::own(fd)?.ip()?, Endpoint::peer(fd)?.ip()?])
}

/// Returns the addresses if both belong to the loopback interface.
fn local_addresses(fd: i32) -> Option<Addresses> {
    addresses(fd).filter(|both| both.iter().all(|(ip, _)| ip.is_loopback()))
}

/// True for a TCP socket over IPv4 or IPv6.
pub fn is_tcp(fd: i32) -> bool {
    let domain = socket_options::number(fd, libc::SO_DOMAIN);
    matches!(domain, libc::AF_INET | libc::AF_INET6)
        && socket_options::number(fd, libc::SO_PROTOCOL) == libc::IPPROTO_TCP
}

fn info(fd: i32) -> libc::tcp_info {
    // SAFETY: the structure consists of numbers; getsockopt(2) writes at most `length` bytes.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of_val(&info) as libc::socklen_t;
        let at = (&raw mut info).cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut length);
        info
    }
}

fn state(fd: i32) -> u8 {
    info(fd).tcpi_state
}

/// Returns the number of connections that wait at a listener, and its maximum.
pub fn backlog(fd: i32) -> [u32; 2] {
    // The kernel reports these numbers in the following fields (`tcp_get_info`).
    let info = info(fd);
    [info.tcpi_unacked, info.tcpi_sacked]
}

fn count(fd: i32, request: libc::c_ulong) -> usize {
    let mut count = 0;
    // SAFETY: ioctl(2) that fills a number.
    let rc = unsafe { libc::ioctl(fd, request, &raw mut count) };
    if rc == 0 {
        usize::try_from(count).unwrap_or(0)
    } else {
        0
    }
}

/// Returns the number of bytes that wait to be read.
pub fn waiting(fd: i32) -> usize {
    count(fd, libc::FIONREAD)
}

/// Returns the number of bytes that the other end has not acknowledged.
pub fn unacknowledged(fd: i32) -> usize {
    count(fd, libc::TIOCOUTQ)
}

/// Returns the directions that were shut down: 1 for reading, 2 for writing.
///
/// A shutdown for writing by the other end counts as a shutdown for reading.
pub fn is_shut(fd: i32) -> u8 {
    let is_shut_for_reading = open_descriptors::events(fd, libc::POLLRDHUP) & libc::POLLRDHUP != 0;
    let is_shut_for_writing = matches!(state(fd), FIN_WAIT1 | FIN_WAIT2);
    u8::from(is_shut_for_reading) | u8::from(is_shut_for_writing) << 1
}

/// Waits until a connection has room for more data; false after one second.
pub fn wait_for_room(fd: i32) -> bool {
    let events = open_descriptors::events_within(fd, libc::POLLOUT, MAX_WAIT);
    events & (libc::POLLOUT | libc::POLLERR) == libc::POLLOUT
}

/// Waits until the other end has acknowledged all sent data.
///
/// Returns false if the other end has no room for more data, or after [`MAX_DELAY_OF_ACK`].
pub fn wait_for_arrival(fd: i32, other: i32) -> bool {
    let start = Instant::now();
    while unacknowledged(fd) > 0 {
        // The option makes the other end send a delayed acknowledgement.
        QUICK_ACK.write_number(other, 1);
        if unacknowledged(fd) == 0 {
            break;
        }
        if count(fd, SIOCOUTQNSD) > 0 || start.elapsed() > MAX_DELAY_OF_ACK {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Returns the reason why a connection cannot be saved.
pub fn objection(fd: i32, other: i32) -> Option<&'static str> {
    if open_descriptors::events(fd, libc::POLLPRI) & libc::POLLPRI != 0 {
        return Some("it holds urgent data (MSG_OOB); let the program receive it sooner");
    }
    let has_arrived = wait_for_arrival(fd, other);
    (!has_arrived)
        .then_some("it waits for room at its other end; let the program read there sooner")
}

/// Returns a copy of the bytes that wait to be read.
pub fn content(fd: i32) -> Result<Vec<Vec<u8>>, &'static str> {
    let length = waiting(fd);
    if length == 0 {
        return Ok(Vec::new());
    }
    if length > MAX_CONTENT {
        return Err(TOO_MUCH);
    }
    let mut bytes = vec![0u8; length];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: recv(2) into a buffer of this function.
    let received = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), length, flags) };
    if usize::try_from(received) == Ok(length) {
        Ok(vec![bytes])
    } else {
        Err("its bytes cannot be read; let the program close it")
    }
}
