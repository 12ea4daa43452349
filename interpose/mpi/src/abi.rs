//! Other ABIs than Open MPI's, and the edges where calls are translated.
//!
//! The runtime uses one ABI, Open MPI's: its constants, its status, and pointers as handles. The
//! differences of other ABIs are in a table (`data/abis.tbl`), from which the [`Abi`]s are
//! generated. Calls are translated at two edges:
//!
//! ```text
//!   program ─► thunk ─► edge ─► handler ─► real::PMPI_… ─► edge ─► the library
//!              its ABI  │        Open MPI's                 │       its ABI
//!                       runtime's `Program`                 [`Library`]
//! ```
//!
//! With Open MPI neither edge exists: the tables of called functions contain the handlers and the
//! library's procedures. Handles of a real library with another ABI are kept unchanged, in the low
//! bytes of the `Real…` types.

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
