//! Sockets that only this process uses.
//!
//! The sockets are connected pairs (socketpair(2)), TCP connections with both ends in this process,
//! listeners without a waiting connection, and new sockets. The socket diagnosis interface
//! (sock_diag(7)) reports the other end of a UNIX socket.

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
