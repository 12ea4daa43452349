//! The MPI side, which can be put back: all that the library, its threads and its libc change.
//!
//! A [`Snapshot`] is taken before the first `MPI_Init`. [`Snapshot::put_back`] leads back to that
//! moment, wherever the library was: in a call that was abandoned, with threads of its own, in the
//! middle of a failure of its peers. After that the library can be initialised again, in another
//! world. Nothing of the program or the runtime is touched.
//!
//! ```text
//!   threads       those whose stacks lie in the library's half of the zone are ended     (threads)
//!   descriptors   those from MPI_FD_BASE on are closed, but what was open then           (descriptors)
//!   signals       handlers of that side are replaced by what was there                   (signals)
//!   libraries     those that it has opened since are closed, without destructors         (modules)
//!   memory        what was mapped since is unmapped, what was writable is written back   (memory)
//!   the caller    its thread-local data, keys and cancellation state of that side        (thread)
//! ```
//!
//! If a part cannot be put back ([`Error`]), the process is no use as a rank any more, and must
//! end.

mod descriptors;
mod memory;
mod modules;
mod mpi_zone;
mod side_error;
pub(crate) mod signals;
mod snapshot;
mod thread;
mod threads;

pub(crate) use mpi_zone::is_mpi;
pub use side_error::Error;
pub use snapshot::{Snapshot, Times};
