//! A PMIx server, by the libpmix of the MPI's own installation.
//!
//! Open MPI's processes are clients of PMIx (PMIx Standard 4 and 5, <https://pmix.org>). libpmix
//! has the server's side of the protocol as well; whoever starts processes calls it, and gives it
//! functions for what it cannot know ([`host`]). It is opened at run time ([`libpmix`]), so that it
//! is always the one that fits, and its structures are declared here ([`abi`]), since many
//! installations have no headers.
//!
//! | a generation | to PMIx |
//! |---|---|
//! | begins | a namespace is registered, and the ranks of this node as its clients |
//! | a rank starts | it finds the server by its environment; all of it is in [`PmixServer::environment`] |
//! | MPI_Init | four fences with Open MPI 5; between nodes by [`crate::Peers`] |
//! | MPI_Finalize | a fence, then the client says farewell |
//! | a rank dies, or is reset | nothing: [`connections`] keeps from libpmix that its connection has closed |
//! | ends | connections are closed, clients and namespace deregistered, and its session directory is removed |
//!
//! libpmix has global state and two threads. So a process has one server, for all of its jobs, and
//! after its end it cannot start another.

pub mod abi;
mod connections;
mod host;
mod libpmix;
mod name_store;
mod pmix_client;
mod pmix_server;
mod values;

pub use pmix_client::PmixClient;
pub use pmix_server::{PmixServer, PmixSettings};
