//! Addresses that the kernel keeps for closed connections (TIME_WAIT, RFC 9293, 3.3.2).
//!
//! The end that is closed first is kept for a minute, in which nobody can bind its address unless
//! it had SO_REUSEADDR. Both ends of the connections in question were of one process. A request to
//! connect from the other end's address is answered by an acknowledgement that the requester
//! resets, and the reset releases the address (RFC 1337).
#![allow(unsafe_code)]

use super::connecting::{connect_from, owned};
use super::endpoint::Endpoint;
use super::rebuilding::reset_at_close;
use super::socket_options::REUSE_ADDRESS;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

/// State in the lists of connections (proc(5)).
const TIME_WAIT: &str = "06";

/// Releases these ports from closed connections of the loopback interface.
pub fn release(ports: &BTreeSet<u16>) {
    for list in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let text = std::fs::read_to_string(list).unwrap_or_default();
        for [own, peer] in text.lines().filter_map(closed) {
            if ports.contains(&own.1) && own.0.is_loopback() {
                request(peer, own);
            }
        }
    }
}

/// Returns the addresses of both ends if the line is that of a closed connection.
fn closed(line: &str) -> Option<[(IpAddr, u16); 2]> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, own, peer, TIME_WAIT, ..] = words[..] else {
        return None;
    };
    Some([address(own)?, address(peer)?])
}

/// Reads an address of such a list.
///
/// Each word of four bytes is a number in the host's order.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok();
    let words = (0..ip.len() / 8).map(|it| Some(word(8 * it)?.to_ne_bytes()));
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

fn endpoint((ip, port): (IpAddr, u16)) -> Endpoint {
    match ip {
        IpAddr::V4(ip) => Endpoint::of_v4(ip, port),
        IpAddr::V6(ip) => Endpoint::of_v6(ip, port),
    }
}

/// Requests a connection, and gives up the request.
fn request(from: (IpAddr, u16), to: (IpAddr, u16)) {
    let family = match to.0 {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    let make = || {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: socket(2), whose descriptor nobody else has.
        let made = unsafe { owned(libc::socket(family, kind, libc::IPPROTO_TCP))? };
        REUSE_ADDRESS.write_number(made.as_raw_fd(), 1);
        reset_at_close(made.as_raw_fd());
        Ok(made)
    };
    // The request is not to succeed: an error is the usual result.
    drop(connect_from(make, &endpoint(from), &endpoint(to)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::{FromRawFd, OwnedFd};

    #[test]
    fn a_line_of_a_closed_connection_is_read() {
        let line = "3: 0100007F:8E01 0100007F:8AD0 06 00000000:00000000 03:0000176F 0 0";
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(
            closed(line),
            Some([(localhost, 0x8e01), (localhost, 0x8ad0)])
        );
        assert_eq!(closed(&line.replace(" 06 ", " 01 ")), None);
    }

    #[test]
    fn a_closed_connection_releases_its_port() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let address: SocketAddr = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).unwrap();
            let port = client.local_addr().unwrap().port();
            let (accepted, _) = listener.accept().unwrap();
            drop(listener);
            // The end that closes first keeps its address.
            drop(client);
            drop(accepted);
            let bind = || endpoint((address.ip(), port)).bind(new_socket(address).as_raw_fd());
            assert!(bind().is_err());
            release(&BTreeSet::from([port]));
            bind().unwrap();
        }
    }

    fn new_socket(address: SocketAddr) -> OwnedFd {
        let family = if address.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        // SAFETY: socket(2), whose descriptor nobody else has.
        unsafe { OwnedFd::from_raw_fd(libc::socket(family, libc::SOCK_STREAM, 0)) }
    }
}
