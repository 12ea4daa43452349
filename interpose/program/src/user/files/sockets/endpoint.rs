//! Addresses of sockets (sockaddr(3type)).
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const FAMILY_SIZE: usize = size_of::<libc::sa_family_t>();

/// Address of a socket in the kernel's format.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Endpoint(Vec<u8>);

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

fn read(fd: i32, call: NameCall) -> Option<Endpoint> {
    let mut bytes = [0u8; size_of::<libc::sockaddr_un>()];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: getsockname(2) or getpeername(2), which write at most `length` bytes.
    let rc = unsafe { call(fd, bytes.as_mut_ptr().cast(), &raw mut length) };
    let end = (length as usize).min(bytes.len());
    (rc == 0).then(|| Endpoint(bytes[..end].to_vec()))
}

fn checked(rc: i32) -> io::Result<()> {
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Endpoint {
    /// Returns the local address of a socket.
    pub fn own(fd: i32) -> Option<Endpoint> {
        read(fd, libc::getsockname)
    }

    /// Returns the address of the other end; `None` if the socket has no other end.
    pub fn peer(fd: i32) -> Option<Endpoint> {
        read(fd, libc::getpeername)
    }

    /// Returns the bytes after the family.
    pub fn name(&self) -> &[u8] {
        self.0.get(FAMILY_SIZE..).unwrap_or_default()
    }

    fn family(&self) -> i32 {
        let bytes = self
            .0
            .get(..FAMILY_SIZE)
            .and_then(|family| family.try_into().ok());
        bytes.map_or(libc::AF_UNSPEC, |family| {
            libc::sa_family_t::from_ne_bytes(family).into()
        })
    }

    /// Returns the IP address and the port.
    ///
    /// An IPv4 address in an IPv6 socket (`::ffff:127.0.0.1`) is returned as an IPv4 address.
    pub fn ip(&self) -> Option<(IpAddr, u16)> {
        const ADDRESS_OF_V6: usize = 6;
        let name = self.name();
        let port = u16::from_be_bytes(name.get(..2)?.try_into().ok()?);
        let address = match self.family() {
            libc::AF_INET => {
                let bytes: [u8; 4] = name.get(2..6)?.try_into().ok()?;
                IpAddr::V4(Ipv4Addr::from(bytes))
            }
            libc::AF_INET6 => {
                let bytes: [u8; 16] = name.get(ADDRESS_OF_V6..)?.get(..16)?.try_into().ok()?;
                IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
            }
            _ => return None,
        };
        Some((address, port))
    }

    /// True if every host has this address: the loopback or the unspecified address.
    pub fn is_on_each_host(&self) -> bool {
        self.is_loopback()
            || self
                .ip()
                .is_some_and(|(address, _)| address.is_unspecified())
    }

    /// True for an address of the loopback interface.
    pub fn is_loopback(&self) -> bool {
        self.ip().is_some_and(|(address, _)| address.is_loopback())
    }

    /// True if a listener at this address receives connections to `other`.
    pub fn covers(&self, other: &Endpoint) -> bool {
        match (self.ip(), other.ip()) {
            (Some((own, port)), Some((address, wanted))) => {
                port == wanted && (own.is_unspecified() || own == address)
            }
            _ => false,
        }
    }

    /// Returns the address with port zero.
    pub fn without_port(&self) -> Endpoint {
        let mut bytes = self.0.clone();
        bytes[FAMILY_SIZE..][..2].fill(0);
        Endpoint(bytes)
    }

    /// Binds a socket to this address (bind(2)).
    pub fn bind(&self, fd: i32) -> io::Result<()> {
        let length = self.0.len() as libc::socklen_t;
        // SAFETY: bind(2) with an address of this length.
        checked(unsafe { libc::bind(fd, self.0.as_ptr().cast(), length) })
    }

    /// Connects a socket to this address (connect(2)).
    pub fn connect(&self, fd: i32) -> io::Result<()> {
        let length = self.0.len() as libc::socklen_t;
        // SAFETY: connect(2) with an address of this length.
        checked(unsafe { libc::connect(fd, self.0.as_ptr().cast(), length) })
    }

    /// Returns an IPv4 address in the kernel's format.
    pub fn of_v4(address: Ipv4Addr, port: u16) -> Endpoint {
        let mut bytes = vec![0; size_of::<libc::sockaddr_in>()];
        bytes[..FAMILY_SIZE].copy_from_slice(&(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[4..8].copy_from_slice(&address.octets());
        Endpoint(bytes)
    }

    /// Returns an IPv6 address in the kernel's format.
    pub fn of_v6(address: Ipv6Addr, port: u16) -> Endpoint {
        let mut bytes = vec![0; size_of::<libc::sockaddr_in6>()];
        bytes[..FAMILY_SIZE].copy_from_slice(&(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[8..24].copy_from_slice(&address.octets());
        Endpoint(bytes)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            Some((IpAddr::V4(address), port)) => write!(f, "{address}:{port}"),
            Some((IpAddr::V6(address), port)) => write!(f, "[{address}]:{port}"),
            None => {
                let name = String::from_utf8_lossy(self.name()).into_owned();
                f.write_str(name.replace('\0', "@").trim_end_matches('@'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_equals_that_of_ipv4() {
        let v4 = Endpoint::of_v4(Ipv4Addr::LOCALHOST, 5000);
        let mapped = Endpoint::of_v6(Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 5000);
        let any = Endpoint::of_v6(Ipv6Addr::UNSPECIFIED, 5000);
        assert_eq!(v4.ip(), mapped.ip());
        assert!(any.covers(&v4) && mapped.covers(&v4) && !v4.covers(&any));
        assert!(any.is_on_each_host() && mapped.is_loopback());
        assert_eq!(v4.to_string(), "127.0.0.1:5000");
        assert_eq!(any.to_string(), "[::]:5000");
    }

    #[test]
    fn an_address_of_one_host_is_not_on_each() {
        let address = Endpoint::of_v4(Ipv4Addr::new(192, 0, 2, 1), 5000);
        assert!(!address.is_on_each_host() && !address.is_loopback());
    }
}
