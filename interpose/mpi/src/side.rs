//! MPI side and its reset: state that the library, its threads and its libc change.
//!
//! A [`Snapshot`] is taken before the first `MPI_Init`. [`Snapshot::restore`] restores the state
//! of that moment from any state: after an abandoned call, with running threads of the library,
//! and after failures of its peers. After the restoration, the library can be initialised again,
//! in another MPI instance. Nothing of the program or the runtime changes.
//!
//! ```text
//!   threads       terminated, if their stacks are in the library's half
//!                 of the reserved range                                    (threads)
//!   descriptors   closed, if they are new and not below MPI_FD_BASE        (descriptors)
//!   signals       handlers of the library are replaced by the old actions  (signals)
//!   libraries     none may have been opened since the snapshot             (modules)
//!   memory        new mappings are unmapped, old contents are restored     (memory)
//!   the caller    thread-local data, keys and cancellation state           (thread)
//! ```
//!
//! A process whose MPI side cannot be reset ([`ResetError`]) cannot be used as a rank any more, and
//! must exit.

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
pub use side_error::ResetError;
pub use snapshot::{ResetTimes, Snapshot};
