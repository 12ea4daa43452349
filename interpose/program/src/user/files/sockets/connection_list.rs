//! TCP connections of all processes (proc(5), `/proc/net/tcp`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// State of a closed connection whose address the kernel has not released yet.
pub const TIME_WAIT: u8 = 6;

/// Connection as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub own: (IpAddr, u16),
    pub peer: (IpAddr, u16),
    pub state: u8,
    /// Inode; zero if no process has the socket open.
    pub inode: u64,
}

/// Returns all connections of this network namespace.
pub fn all() -> impl Iterator<Item = Connection> {
    let lists = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let texts = lists.map(|list| std::fs::read_to_string(list).unwrap_or_default());
    texts.into_iter().flat_map(|text| {
        let lines = text.lines().filter_map(connection);
        lines.collect::<Vec<_>>()
    })
}

fn connection(line: &str) -> Option<Connection> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, own, peer, state, _, _, _, _, _, inode, ..] = words[..] else {
        return None;
    };
    Some(Connection {
        own: address(own)?,
        peer: address(peer)?,
        state: u8::from_str_radix(state, 16).ok()?,
        inode: inode.parse().ok()?,
    })
}

/// Parses an address in the kernel's list of connections.
///
/// Each word of four bytes is a number in the host's byte order.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok();
    let words = (0..ip.len() / 8).map(|index| Some(word(8 * index)?.to_ne_bytes()));
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_listed_with_both_addresses() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ip = |it: std::net::SocketAddr| (it.ip(), it.port());
            let own = ip(client.local_addr().unwrap());
            let peer = ip(client.peer_addr().unwrap());
            let found = all().find(|it| (it.own, it.peer) == (own, peer)).unwrap();
            assert_eq!(found.state, 1);
            assert_ne!(found.inode, 0);
        }
    }
}
