//! Addresses of this host.
#![allow(unsafe_code)]

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

/// Returns the addresses of this host at which other hosts may reach it.
///
/// Link-local addresses are left out: those of IPv6 are valid with an interface of the other host.
/// Returns an empty list if getifaddrs(3) fails.
pub fn interface_addresses() -> Vec<IpAddr> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the pointer is valid for writes.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let mut addresses = Vec::new();
    let mut next = first;
    // SAFETY: elements of the list are valid until `freeifaddrs`.
    while let Some(interface) = unsafe { next.as_ref() } {
        let is_up = interface.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: `ifa_addr` is null or an address that lives as long as the list.
        let address = unsafe { ip_address(interface.ifa_addr) };
        addresses.extend(address.filter(|&address| is_up && is_reachable(address)));
        next = interface.ifa_next;
    }
    // SAFETY: `getifaddrs` has returned the list, and no reference to it is left.
    unsafe { libc::freeifaddrs(first) };
    addresses
}

/// Reads a socket address; `None` if it is no IP address.
///
/// # Safety
/// `address` must be null or valid for reads of the structure of its family.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as for this function.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let bytes = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                Some(Ipv4Addr::from(u32::from_be(bytes)).into())
            }
            libc::AF_INET6 => {
                let bytes = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                Some(Ipv6Addr::from(bytes).into())
            }
            _ => None,
        }
    }
}

/// True if other hosts may reach the address.
fn is_reachable(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !address.is_loopback() && !is_link_local
}

/// True if this host has the address.
pub fn is_own_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_own_addresses_that_are_not_loopback() {
        for address in interface_addresses() {
            assert!(
                is_own_address(address) && !address.is_loopback(),
                "{address}"
            );
        }
    }

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
