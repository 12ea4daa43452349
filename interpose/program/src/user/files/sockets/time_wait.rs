//! Release of addresses of closed connections (TIME_WAIT, RFC 9293, 3.3.2).
//!
//! After a connection was closed, the kernel reserves the address of the end that was closed first
//! for a minute. This process had both ends, so it can end the reservation earlier: it sends a
//! connection request from the address of the other end. The kernel answers the request with an
//! acknowledgement; the requester does not expect one and answers with a reset; the reset releases
//! the address (RFC 1337).
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
    let is_reserved = |connection: &Connection| {
        let (ip, port) = connection.own;
        connection.state == TIME_WAIT && ip.is_loopback() && ports.contains(&port)
    };
    for connection in connection_list::all().filter(is_reserved) {
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
    let create = || {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: socket(2), whose new descriptor has no other owner.
        let socket = unsafe { owned(libc::socket(family, kind, libc::IPPROTO_TCP))? };
        REUSE_ADDRESS.write_number(socket.as_raw_fd(), 1);
        reset_at_close(socket.as_raw_fd());
        Ok(socket)
    };
    // The request is not expected to succeed: an error is the usual result.
    drop(connect_from(create, &endpoint(from), &endpoint(to)));
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
