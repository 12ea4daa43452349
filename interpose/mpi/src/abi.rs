//! Other ABIs than Open MPI's, and the edges where calls are translated.
//!
//! The runtime knows one ABI, that of Open MPI: its constants, its status, handles that are
//! pointers. Differences of others are in a table (`data/abis.tbl`), from which the [`Abi`]s are
//! generated. Calls are translated at two edges:
//!
//! ```text
//!   program ─► thunk ─► edge ─► handler ─► real::PMPI_… ─► edge ─► the library
//!              its ABI  │        Open MPI's                 │       its ABI
//!                       runtime's `Program`                 [`Library`]
//! ```
//!
//! With Open MPI neither edge exists: the tables of functions that are called hold the handlers and
//! the library's procedures. Handles of a real library of another ABI are kept as they are, in the
//! low bytes of the `Real…` types.

mod abi_edge;
mod arguments;
mod edges;
mod foreign_abi;
mod library;
mod special;

pub use abi_edge::Edge;
pub use arguments::{Handles, Integers, Statuses, Way, pointer, value};
pub use edges::table;
pub use foreign_abi::{Abi, Domain, MPICH, Pointer, Predefined, STANDARD, StatusLayout, Value};
pub(crate) use library::connect;
pub use library::{Library, current, datatype_at, degrees, limit, members, object, rank};
