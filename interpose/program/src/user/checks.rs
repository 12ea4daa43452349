//! Checks that a program can be restored in another process.

use super::program_runtime::Runtime;
use super::sharing::{self, Mapping};
use super::{UserError, files, keys, loader, refused, threads, timers, undo};

/// Refuses a program that cannot be restored.
pub fn check(rt: &Runtime) -> Result<(), UserError> {
    threads::check(rt)?;
    timers::check(rt)?;
    keys::check()?;
    rt.shared_mappings.set(Some(sharing::check()?));
    loader::check(&rt.loader)?;
    files::check(undo::written().highest())
}

/// Refuses state in the kernel that cannot be restored.
///
/// All threads of the program must be stopped.
pub fn check_kernel_state(rt: &Runtime) -> Result<(), UserError> {
    files::check_kinds(rt)?;
    refused::check(rt)?;
    rt.input.borrow().check()
}

/// Returns the mappings that other processes may share, as found by the last [`check`].
pub fn shared_mappings(rt: &Runtime) -> Vec<Mapping> {
    rt.shared_mappings.take().unwrap_or_else(sharing::mappings)
}
