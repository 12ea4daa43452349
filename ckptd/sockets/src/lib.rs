//! Sockets of the tools: readiness of many descriptors, the user behind a connection, and ports.
//!
//! The ranks' library does not use this crate.

mod listening;
mod local_peer;
#[cfg(test)]
mod other_user;
mod own_addresses;
mod poller;

pub use listening::{listen, listen_everywhere};
pub use local_peer::is_other_user;
pub use own_addresses::{interface_addresses, is_own_address, source_addresses};
pub use poller::{Poller, RETRY, Ready, Registry, Source};
