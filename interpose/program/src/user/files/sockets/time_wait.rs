//! Addresses that the kernel keeps for closed connections (TIME_WAIT, RFC 9293, 3.3.2).
//!
//! The kernel keeps the end that was closed first for a minute. Meanwhile its address can be bound
//! only if the end had SO_REUSEADDR. Here one process had both ends of the connections. This
//! process therefore sends a connection request from the other end's address. The kernel answers it
//! with an acknowledgement, the requester answers this with a reset, and the reset releases the
//! address (RFC 1337).
#![allow(unsafe_code)]

use super::connecting::{connect_from, owned};
use super::connection_list::{self, Connection, TIME_WAIT};
use super::endpoint::Endpoint;
use super::socket_options::{REUSE_ADDRESS, reset_at_close};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// Releases these ports from closed connections of the loopback interface.
pub fn release(ports: &BTreeSet<u16>) {
    let is_kept = |it: &Connection| {
        it.state == TIME_WAIT && it.own.0.is_loopback() && ports.contains(&it.own.1)
    };
    for connection in connection_list::all().filter(is_kept) {
        request(connection.peer, connection.own);
    }
}

fn endpoint((ip, port): (IpAddr, u16)) -> Endpoint {
    match ip {
        IpAddr::V4(ip) => Endpoint::of_v4(ip, port),
        IpAddr::V6(ip) => Endpoint::of_v6(ip, port),
    }
}

/// Requests a connection, and abandons the request.
fn request(from: (IpAddr, u16), to: (IpAddr, u16)) {
    let family = match to.0 {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    let make = || {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: socket(2), whose new descriptor has no other owner.
        let made = unsafe { owned(libc::socket(family, kind, libc::IPPROTO_TCP))? };
        REUSE_ADDRESS.write_number(made.as_raw_fd(), 1);
        reset_at_close(made.as_raw_fd());
        Ok(made)
    };
    // The request is not expected to succeed: an error is the usual result.
    drop(connect_from(make, &endpoint(from), &endpoint(to)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::{FromRawFd, OwnedFd};

    #[test]
    fn a_closed_connection_releases_its_port() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let address: SocketAddr = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).unwrap();
            let port = client.local_addr().unwrap().port();
            let (accepted, _) = listener.accept().unwrap();
            drop(listener);
            // The end that is closed first keeps its address.
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
        // SAFETY: socket(2), whose new descriptor has no other owner.
        unsafe { OwnedFd::from_raw_fd(libc::socket(family, libc::SOCK_STREAM, 0)) }
    }
}
