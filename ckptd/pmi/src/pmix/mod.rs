//! A PMIx server that uses the libpmix of the MPI's own installation.
//!
//! Open MPI's processes are clients of PMIx (PMIx Standard 4 and 5, <https://pmix.org>). libpmix
//! also has the server's side of the protocol; the process that starts ranks calls it, and passes
//! it functions for everything that libpmix cannot do itself ([`host`]). libpmix is opened at run
//! time ([`libpmix`]), so that it always fits the MPI library. Its structures are declared in
//! [`abi`], because many installations have no headers.
//!
//! | generation | PMIx |
//! |---|---|
//! | begins | a namespace is registered, and the ranks of this node as its clients |
//! | a rank starts | it finds the server by its environment: [`PmixServer::environment`] |
//! | MPI_Init | four fences with Open MPI 5; between nodes by [`crate::Peers`] |
//! | MPI_Finalize | a fence, and then PMIx_Finalize of the client |
//! | a rank dies, or is reset | nothing: [`connections`] keeps its connection to libpmix open |
//! | ends | connections are closed, clients and namespace deregistered, files removed |
//!
//! libpmix has global state and two threads. So a process has one server for all of its jobs, and
//! cannot start another one after its end.

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
