//! Sockets that belong to this process alone.
//!
//! Connected pairs (socketpair(2)), connections of TCP with both ends in this process, listeners
//! at which no connection waits, and new sockets. The socket diagnosis interface reports the other
//! end of a UNIX socket (sock_diag(7)).

mod connecting;
mod connection_list;
mod endpoint;
mod queues;
mod rebuilding;
mod refilling;
mod socket;
mod socket_options;
mod tcp;
mod time_wait;

pub use rebuilding::{LostSocket, abandon, rebuild};
pub use refilling::fill;
pub use socket::{LocalSockets, SERVICE, Socket, is_of_service, kind, objection};
