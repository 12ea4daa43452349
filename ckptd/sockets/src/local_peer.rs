//! The user behind a TCP connection from this host.
//!
//! A port of the loopback interface is open to every local user, and TCP has no SO_PEERCRED.
//! sock_diag(7) returns the owner of a socket, though, and the peer of a local connection is a
//! socket of this network namespace.

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{getpeername, getsockname, recv, send, socket_with};
use rustix::process::geteuid;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// `SOCK_DIAG_BY_FAMILY`, the type of request and reply.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`, the flag of a request.
const REQUEST_FLAG: u16 = 1;
/// `struct nlmsghdr`, before each message.
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_sockid`: ports, addresses, interface and cookie.
const SOCKET_ID_BYTES: usize = 48;
/// Offset of the socket's identity in a request (`struct inet_diag_req_v2`).
const ID_IN_REQUEST: usize = HEADER_BYTES + 8;
/// Offset of the socket's identity in a reply (`struct inet_diag_msg`).
const ID_IN_REPLY: usize = HEADER_BYTES + 4;
/// Offset of the owner in a reply.
///
/// The identity, a timer and the lengths of two queues precede the owner.
const OWNER_OFFSET: usize = ID_IN_REPLY + SOCKET_ID_BYTES + 12;
/// Offset of the inode in a reply.
const INODE_OFFSET: usize = OWNER_OFFSET + 4;

/// Returns true if the peer of a connection belongs to another user of this host.
///
/// False without information: the peer is on another host, has exited, or the kernel has no
/// sock_diag(7).
pub fn is_other_user(connection: impl AsFd) -> bool {
    owner(connection).is_ok_and(|owner| owner.is_some_and(|owner| owner != geteuid().as_raw()))
}

/// Returns the user that owns the peer's socket; `None` if that is unknown.
fn owner(connection: impl AsFd) -> io::Result<Option<u32>> {
    // A listener of both families has peers with IPv4 addresses inside IPv6 ones.
    let canonical =
        |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let Some(far) = getpeername(&connection)? else {
        return Ok(None);
    };
    let near = canonical(getsockname(&connection)?.try_into()?);
    let far = canonical(far.try_into()?);
    let kernel: OwnedFd = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    // The reply is there as soon as the request is sent.
    send(&kernel, &request(far, near), SendFlags::empty())?;
    let mut reply = [0; 1024];
    let (length, _) = recv(&kernel, &mut reply[..], RecvFlags::DONTWAIT)?;
    Ok(owner_in(&reply[..length], far.port()))
}

/// Builds the request for the socket at `peer` that is connected to `own`.
fn request(peer: SocketAddr, own: SocketAddr) -> Vec<u8> {
    let family = match peer {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let mut bytes = vec![0; ID_IN_REQUEST + SOCKET_ID_BYTES];
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_FLAG.to_ne_bytes());
    bytes[HEADER_BYTES] = family.as_raw() as u8;
    bytes[HEADER_BYTES + 1] = libc::IPPROTO_TCP as u8;
    // Any state.
    bytes[HEADER_BYTES + 4..HEADER_BYTES + 8].fill(0xff);
    let id = &mut bytes[ID_IN_REQUEST..];
    id[..2].copy_from_slice(&peer.port().to_be_bytes());
    id[2..4].copy_from_slice(&own.port().to_be_bytes());
    put_address(&mut id[4..20], peer.ip());
    put_address(&mut id[20..36], own.ip());
    // Any cookie (`INET_DIAG_NOCOOKIE`); the interface before it is 0, which means any.
    id[40..48].fill(0xff);
    bytes
}

fn put_address(destination: &mut [u8], address: IpAddr) {
    match address {
        IpAddr::V4(address) => destination[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => destination.copy_from_slice(&address.octets()),
    }
}

/// Returns the owner of the socket in a reply, if that socket has this port.
fn owner_in(reply: &[u8], port: u16) -> Option<u32> {
    let read_u32 = |at: usize| Some(u32::from_ne_bytes(*reply.get(at..)?.first_chunk()?));
    let is_for_port = reply.get(4..6)? == BY_FAMILY.to_ne_bytes()
        && reply.get(ID_IN_REPLY..ID_IN_REPLY + 2)? == port.to_be_bytes();
    // A socket without an inode is closed: the owner in its reply has no meaning.
    let is_open = read_u32(INODE_OFFSET)? != 0;
    (is_for_port && is_open).then_some(read_u32(OWNER_OFFSET)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other_user::{connect_as_another_user, exits_soon};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_peer_of_another_user_is_foreign() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if let Some(other) = connect_as_another_user(port) {
            let (near, _) = listener.accept().unwrap();
            assert_eq!(owner(&near).unwrap(), Some(65534));
            assert!(is_other_user(&near));
            drop(near);
            assert!(exits_soon(other));
        }
    }

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = if address.starts_with("0") {
            "127.0.0.1"
        } else {
            "localhost"
        };
        let far = TcpStream::connect((host, port)).unwrap();
        (listener.accept().unwrap().0, far)
    }

    #[test]
    fn a_local_peer_has_an_owner() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let (near, far) = pair(address);
            assert_eq!(owner(&near).unwrap(), Some(geteuid().as_raw()), "{address}");
            assert!(!is_other_user(&near));
            drop(far);
            assert!(!is_other_user(&near), "a closed socket has no owner");
        }
    }

    #[test]
    fn a_reply_about_anything_else_is_ignored() {
        let mut reply = vec![0; INODE_OFFSET + 4];
        reply[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        reply[ID_IN_REPLY..ID_IN_REPLY + 2].copy_from_slice(&7u16.to_be_bytes());
        reply[OWNER_OFFSET..OWNER_OFFSET + 4].copy_from_slice(&5u32.to_ne_bytes());
        assert_eq!(owner_in(&reply, 7), None, "no inode");
        reply[INODE_OFFSET] = 1;
        assert_eq!(owner_in(&reply, 7), Some(5));
        assert_eq!(owner_in(&reply, 8), None);
        assert_eq!(owner_in(&reply[..INODE_OFFSET], 7), None);
        reply[4] = 2;
        assert_eq!(owner_in(&reply, 7), None, "an error");
    }
}
