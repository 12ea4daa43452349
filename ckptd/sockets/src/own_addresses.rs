//! Addresses of this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Returns the addresses of this host from which packets to another host are sent.
///
/// The host may have several addresses, whose order is that of getaddrinfo(3).
pub fn source_addresses(host: &str) -> Vec<IpAddr> {
    let source_address = |to: SocketAddr| {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        // Connecting a datagram socket selects its source address and sends nothing (udp(7)).
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let addresses = (host, 9).to_socket_addrs().into_iter().flatten();
    addresses.filter_map(source_address).collect()
}

/// True if this host has the address.
pub fn is_own_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_family_of_the_destination() {
        for address in ["127.0.0.1", "::1"] {
            let own: IpAddr = address.parse().unwrap();
            assert_eq!(source_addresses(address), [own]);
            assert!(is_own_address(own));
        }
        assert!(!is_own_address("192.0.2.77".parse().unwrap()));
        assert!(!is_own_address("2001:db8::77".parse().unwrap()));
    }
}
