//! A PMI-1 server: lines over a socket, for MPICH and what derives from it; and a [`client`] of a launcher's.
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
//! [`space`] is all of it as a state machine; here are the sockets, and one thread that serves them all ([`crate::poller::Poller`]). A rank inherits its end of a pair of
//! sockets (`PMI_FD`), so nobody else can speak for it. A client that floods the server is disconnected.

pub mod client;
mod line;
mod request;
mod server;
mod space;

pub use server::{Server, remove_segments};
