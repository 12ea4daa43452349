//! Connection of an idle spare to the daemon.

use crate::runtime_state::StateCell;
use std::time::Instant;
use understudy_wire::client::Client;

/// Connection to the daemon, if this process has a connection.
pub struct DaemonLink {
    pub(super) link: StateCell<SpareConnection>,
}

impl DaemonLink {
    /// Returns the state at the start of the process.
    pub const fn start() -> DaemonLink {
        DaemonLink {
            link: StateCell::new(SpareConnection {
                client: None,
                due: None,
            }),
        }
    }
}

/// Connection, and the time of the next message.
pub(super) struct SpareConnection {
    pub(super) client: Option<Client>,
    /// Time of the next heartbeat or attempt to connect.
    pub(super) due: Option<Instant>,
}
