//! Listening sockets at ports of a range.

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;

/// Limit of connections that are not accepted yet.
const BACKLOG: i32 = 128;

/// Listens on all addresses of this host, at the first free port of a range.
///
/// The range `0..=0` is any port.
///
/// # Errors
/// Errors of bind(2) and listen(2).
pub fn listen_everywhere(ports: &RangeInclusive<u16>) -> io::Result<TcpListener> {
    listen(Ipv6Addr::UNSPECIFIED.into(), ports).or_else(|error| match is_taken(&error) {
        true => Err(error),
        // The kernel has no IPv6.
        false => listen(Ipv4Addr::UNSPECIFIED.into(), ports),
    })
}

/// Listens at the first free port of a range.
///
/// # Errors
/// Errors of bind(2) and listen(2); the error of the last port if no port is free.
pub fn listen(address: IpAddr, ports: &RangeInclusive<u16>) -> io::Result<TcpListener> {
    let mut last = ErrorKind::AddrInUse.into();
    for port in ports.clone() {
        match listen_at(SocketAddr::new(address, port)) {
            Err(error) if is_taken(&error) => last = error,
            outcome => return outcome,
        }
    }
    Err(last)
}

/// Listens as [`TcpListener::bind`] does, at `::` for IPv4, too.
///
/// The system's default (`net.ipv6.bindv6only`) may exclude IPv4.
fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// True if another port may be free.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::AddrInUse | ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_port_of_a_range_is_used() {
        let free = listen_everywhere(&(0..=0)).unwrap();
        let first = free.local_addr().unwrap().port();
        let ports = first..=first.saturating_add(50);
        let next = listen_everywhere(&ports).unwrap();
        let port = next.local_addr().unwrap().port();
        assert!(ports.contains(&port) && port != first, "{port}");
        let error = listen_everywhere(&(first..=first)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
