//! ABIs other than Open MPI's, and the edges where calls are translated.
//!
//! The runtime uses one ABI, Open MPI's: its constants, its status, and pointers as handles. The
//! differences of other ABIs are in a table (`data/abis.tbl`), from which the [`Abi`]s are
//! generated. Calls are translated at two edges:
//!
//! ```text
//!   program ─► thunk ─► edge ─► handler ─► real::PMPI_… ─► edge ─► the library
//!              its ABI  │        Open MPI's                 │       its ABI
//!                       runtime's `ProgramEdge`                 [`LibraryEdge`]
//! ```
//!
//! With Open MPI neither edge exists: the dispatch table then contains the handlers, and the table
//! of procedures contains those of the library. The edge to the library does not convert handles:
//! the `Real…` types contain the library's handles in their low bytes.

mod abi_edge;
mod arguments;
mod edges;
mod foreign_abi;
mod library_edge;
mod special;
mod statuses;

pub use abi_edge::Edge;
pub use arguments::{Direction, Handles, Integers, pointer, value};
pub use edges::table;
pub use foreign_abi::{
    Abi, ConstantValue, Domain, MPICH, Pointer, PredefinedHandle, STANDARD, StatusLayout,
};
pub(crate) use library_edge::connect;
pub use library_edge::{
    LibraryEdge, datatype_at, degrees, foreign_abi, limit, members, object, rank,
};
pub use statuses::Statuses;
