//! Sockets of the tools: readiness of many descriptors, and the user behind a connection.
//!
//! The ranks' library does not use this crate.

mod local_peer;
#[cfg(test)]
mod other_user;
mod poller;

pub use local_peer::is_other_user;
pub use poller::{Poller, RETRY, Ready, Registry, Source};
