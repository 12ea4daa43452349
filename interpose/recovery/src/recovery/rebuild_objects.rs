//! Creation of MPI objects in a new MPI instance, from their recipes.

use super::load;
use crate::objects::{comm, tool, window};
use crate::{Runtime, copies, rendezvous, world};
use understudy_mpi as mpi;
use understudy_numbers::{ProcessNumber, Worker};

/// Locks files and creates MPI objects again, after memory has been restored.
///
/// `processes` are those of the workers; `me` is this process's worker.
///
/// # Errors
/// Fails if a process has failed.
pub fn rebuild_objects(rt: &Runtime, me: Worker, processes: &[ProcessNumber]) -> mpi::Result<()> {
    load::lock_files(rt);
    load::check_nodes(rt, processes);
    comm::discard_reals(rt);
    comm::rebuild(rt, world::get(rt).workers, copies::committed_epoch(rt))?;
    tool::rebuild(rt);
    window::rebuild(rt, processes)?;
    rendezvous::republish_board(rt, me)
}
