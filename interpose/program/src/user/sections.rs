//! Records of the program's actions, until the end of the job.
//!
//! A *section* contains the actions from one cut to the next.

use super::program_runtime::Runtime;
use super::{layout, loader, output, undo};
use understudy_numbers::{Epoch, ProcessNumber};

/// Starts to record the libraries that the program opens; called in MPI_Init.
///
/// Libraries that are already open must be equal in all ranks.
pub fn begin_recording(rt: &Runtime) {
    layout::add_libraries(rt);
    loader::begin(&rt.loader);
}

/// Starts the section of `epoch` at its cut.
///
/// Actions of the program after this call belong to that section.
pub fn begin_section(rt: &Runtime, epoch: Epoch) {
    undo::begin(rt, epoch);
    rt.input.borrow_mut().begin_section(epoch);
}

/// Discards records from before the cut of `epoch`, which no rollback needs any longer.
pub fn forget_before(rt: &Runtime, epoch: Epoch) {
    undo::forget_before(rt, epoch);
    rt.input.borrow_mut().forget_before(epoch);
}

/// Releases undo log and output when the rank or the job ends regularly.
pub fn release_output(rt: &Runtime) {
    undo::release(rt);
    output::release();
}

/// Removes the objects that a failed process has left in memory.
pub fn remove_ledger(rt: &Runtime, process: ProcessNumber) {
    undo::discard(process);
    output::remove_ledger(rt, process);
}

/// Removes the objects that exited processes of this node have left in memory.
pub fn remove_closed_ledgers(rt: &Runtime) {
    undo::discard_abandoned();
    output::remove_closed_ledgers(rt);
}
