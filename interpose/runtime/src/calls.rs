//! The handlers written by hand, one for each procedure that needs more than its handles translated.

mod arguments;
mod attribute;
mod collaboration;
mod collective;
mod combined;
mod comm;
mod completion;
mod conversion;
mod datatype;
mod environment;
mod errhandler;
mod group;
mod info;
mod memory;
mod op;
mod persistent;
mod point_to_point;
mod probe;
mod topology;

pub use attribute::*;
pub use collective::*;
pub use combined::*;
pub use comm::*;
pub use completion::*;
pub use conversion::*;
pub use datatype::*;
pub use environment::*;
pub use errhandler::*;
pub use group::*;
pub use info::*;
pub use memory::{MPI_Alloc_mem, MPI_Buffer_attach, MPI_Buffer_detach, MPI_Free_mem};
pub use op::*;
pub use persistent::*;
pub use point_to_point::*;
pub use probe::*;
pub use topology::*;
