//! Records of what the program does, in sections between cuts, until the end of the job.

use super::program_runtime::Runtime;
use super::{layout, loader, output, undo};
use understudy_numbers::{Epoch, ProcessNumber};

/// Begins to note libraries that the program opens, in MPI_Init.
///
/// Libraries that are open already must be equal in all ranks.
pub fn begin(rt: &Runtime) {
    layout::remember_libraries(rt);
    loader::begin(&rt.loader);
}

/// Begins the section of `epoch`, at its cut.
///
/// What the program does from here on belongs to that section.
pub fn begin_section(rt: &Runtime, epoch: Epoch) {
    undo::begin(rt, epoch);
    rt.input.borrow_mut().begin_section(epoch);
}

/// Discards records from before the cut of this epoch: no rollback needs them.
pub fn forget_before(rt: &Runtime, epoch: Epoch) {
    undo::forget_before(rt, epoch);
    rt.input.borrow_mut().forget_before(epoch);
}

/// Releases undo log and output: the rank ends in good order, or the job does.
pub fn release_output(rt: &Runtime) {
    undo::release(rt);
    output::release();
}

/// Removes what a failed process has left in memory.
pub fn remove_ledger(rt: &Runtime, process: ProcessNumber) {
    undo::discard(process);
    output::remove_ledger(rt, process);
}

/// Removes what those of these ranks of the launcher have left in memory that have ended.
pub fn remove_closed_ledgers(rt: &Runtime, ranks: std::ops::Range<u32>) {
    undo::discard_abandoned();
    output::remove_closed_ledgers(rt, ranks);
}
