//! Handwritten handlers of the procedures that need more than translated handles.

mod accumulate;
mod arguments;
mod attribute;
mod buffers;
mod collaboration;
mod collective;
mod combined;
mod comm;
mod comm_duplicate;
mod comm_hints;
mod completion;
mod connections;
mod conversion;
mod datatype;
mod direct_accumulate;
mod dynamic;
mod environment;
mod epochs;
mod errhandler;
mod exchanges;
mod file;
mod general;
mod group;
mod info;
pub mod language;
mod memory;
mod one_sided;
mod op;
mod partitioned;
mod performance;
mod persistent;
mod persistent_collective;
mod point_to_point;
mod probe;
mod process_runtime;
mod receives;
mod session;
mod sides;
mod spawn;
mod tool;
mod window;

pub use accumulate::*;
pub use collective::*;
pub use combined::*;
pub use comm::*;
pub use comm_duplicate::*;
pub use comm_hints::*;
pub use completion::*;
pub use connections::*;
pub use conversion::*;
pub use datatype::*;
pub use dynamic::*;
pub use environment::*;
pub use epochs::*;
pub use errhandler::*;
pub use exchanges::*;
pub use file::*;
pub use general::*;
pub use group::*;
pub use info::*;
pub use memory::{MPI_Alloc_mem, MPI_Free_mem};
pub use one_sided::*;
pub use op::*;
pub use partitioned::*;
pub use performance::*;
pub use persistent::*;
pub use persistent_collective::{init_collective, is_root, local_size, peer_count};
pub use point_to_point::*;
pub use probe::*;
pub use process_runtime::runtime;
pub use receives::*;
pub use session::*;
pub use spawn::*;
pub use tool::*;
pub use window::*;

/// Generated handlers, and the table of all handlers.
#[allow(unsafe_code, missing_docs)]
mod generated {
    include!("generated/handlers.rs");
}

pub use generated::HANDLERS;
