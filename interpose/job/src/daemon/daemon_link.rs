//! Connection of an idle spare to the daemon.

use crate::cell::Field;
use std::time::Instant;
use understudy_wire::client::Client;

/// Connection to the daemon, if this process has one.
pub struct DaemonLink {
    pub(super) link: Field<Link>,
}

impl DaemonLink {
    /// Returns the state at the start of the process.
    pub const fn start() -> DaemonLink {
        DaemonLink {
            link: Field::new(Link {
                client: None,
                due: None,
            }),
        }
    }
}

/// Connection, and the time of the next message.
pub(super) struct Link {
    pub(super) client: Option<Client>,
    /// Time of the next heartbeat or attempt to connect.
    pub(super) due: Option<Instant>,
}
