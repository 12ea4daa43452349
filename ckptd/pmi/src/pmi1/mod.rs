//! A PMI-1 server: lines over a socket, for MPICH and its derivatives.
//!
//! The module also has a [`Pmi1Client`] of a launcher's server.
//!
//! | request of a rank | answer |
//! |---|---|
//! | `init`, `get_maxes`, `get_appnum` | version, limits, and the rank's program |
//! | `get_my_kvsname`, `get_universe_size` | data about the job |
//! | `put`, `get` | data of ranks for each other; guaranteed after a barrier |
//! | `barrier_in` | when all ranks wait in the barrier |
//! | `publish_name`, `lookup_name`, `unpublish_name` | within the generation |
//! | `spawn` | when the processes have been started |
//! | `abort` | none; the owner of the server handles it |
//! | `finalize` | acknowledgement |
//!
//! [`key_space`] has all of this as a state machine; [`pmi1_server`] has the sockets, and one
//! thread that serves all of them ([`understudy_sockets::Poller`]). A rank inherits its end of a
//! pair of sockets (`PMI_FD`), so that no other process can act for it. A client that floods the
//! server is disconnected.

#[cfg(any(test, fuzzing))]
pub mod hostile;
mod key_space;
mod pmi1_client;
mod pmi1_line;
mod pmi1_server;
mod spawn_request;

pub use pmi1_client::{DESCRIPTOR, Pmi1Client};
pub use pmi1_server::{Pmi1Server, remove_segments};
