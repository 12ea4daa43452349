//! Addresses of the leader that other hosts receive.

use std::net::{IpAddr, SocketAddr};
use understudy_sockets::{interface_addresses, source_addresses};

/// Limit of addresses: key-value stores of launchers limit the length of a value.
const MAX_ADDRESSES: usize = 8;

/// Returns addresses of the leader, in the order in which they are tried.
///
/// The first are the local addresses of the routes to the other host, if one is given. This host's
/// name follows, and then the addresses of its other networks.
pub fn published_addresses(to: Option<&str>, own_host: &str, port: u16) -> Vec<String> {
    let with_port = |address: IpAddr| SocketAddr::new(address, port).to_string();
    let routed = to.into_iter().flat_map(source_addresses).map(with_port);
    let mut addresses: Vec<String> = routed.chain([format!("{own_host}:{port}")]).collect();
    for address in interface_addresses().into_iter().map(with_port) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_and_the_name_precede_other_networks() {
        let addresses = published_addresses(Some("127.0.0.1"), "n1", 7);
        assert_eq!(addresses[..2], ["127.0.0.1:7", "n1:7"]);
        let others = interface_addresses().into_iter().take(MAX_ADDRESSES - 2);
        let others: Vec<_> = others
            .map(|it| SocketAddr::new(it, 7).to_string())
            .collect();
        assert_eq!(addresses[2..], others);
        assert_eq!(published_addresses(None, "n1", 7)[0], "n1:7");
    }
}
