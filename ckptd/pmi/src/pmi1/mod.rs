//! A PMI-1 server: lines over a socket, for MPICH and what derives from it; and a [`Pmi1Client`] of
//! a launcher's.
//!
//! | a rank sends | it is answered |
//! |---|---|
//! | `init`, `get_maxes`, `get_appnum`, `get_my_kvsname`, `get_universe_size` | who and where it is |
//! | `put`, `get` | what ranks want to know of each other; certain behind a barrier |
//! | `barrier_in` | when all ranks wait there |
//! | `publish_name`, `lookup_name`, `unpublish_name` | within the generation |
//! | `spawn` | when the processes have been started |
//! | `abort` | nothing; whoever drives the server ends the job |
//! | `finalize` | farewell |
//!
//! [`key_space`] is all of it as a state machine; here are the sockets, and one thread that serves
//! them all ([`understudy_sockets::Poller`]). A rank inherits its end of a pair of sockets
//! (`PMI_FD`), so nobody else can speak for it. A client that floods the server is disconnected.

mod key_space;
mod pmi1_client;
mod pmi1_line;
mod pmi1_server;
mod spawn_request;

pub use pmi1_client::{DESCRIPTOR, Pmi1Client};
pub use pmi1_server::{Pmi1Server, remove_segments};
