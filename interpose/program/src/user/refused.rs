//! State of the process, other than descriptors, that is refused at a cut.

pub(super) mod start_state;

use super::kernel_calls::kernel_calls;
use super::{UserError, kernel_aio, lowered_limits, memory_policy, system_v, threads, zones};
use crate::kernel_state::attributes::{DIRECTORY, GUARDS, LIMITS, MAPPED, RAW_THREADS};
use crate::user::program_runtime::Runtime;
use start_state::refused_state;
use std::sync::atomic::Ordering;
use understudy_image::procmap;
use understudy_image::vmas::{Owner, Vma};

/// Refuses state that cannot be restored.
///
/// All threads of the program must be stopped.
pub(super) fn check(rt: &Runtime) -> Result<(), UserError> {
    rt.start.borrow().check()?;
    check_limits()?;
    check_threads(rt)?;
    if std::env::current_dir().is_err() {
        return Err(refused_state(
            "a working directory without a name",
            DIRECTORY,
        ));
    }
    system_v::check()?;
    check_guards(rt)?;
    memory_policy::check()?;
    check_mappings()
}

/// Refuses limits that the program has lowered below understudy's needs.
fn check_limits() -> Result<(), UserError> {
    lowered_limits::first_low_limit().map_or(Ok(()), |(least, value)| {
        Err(refused_state(
            format!("a limit of {value} ({})", least.name),
            LIMITS,
        ))
    })
}

/// Refuses threads that were created by clone(2) directly.
fn check_threads(rt: &Runtime) -> Result<(), UserError> {
    threads::unknown_thread(rt).map_or(Ok(()), |number| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{number}/comm"));
        let name = name.unwrap_or_default();
        let what = format!("thread {number} ({}), made by clone(2)", name.trim_end());
        Err(refused_state(what, RAW_THREADS))
    })
}

/// Refuses guard pages on kernels that do not report them.
fn check_guards(rt: &Runtime) -> Result<(), UserError> {
    let has_guards = kernel_calls().guards.load(Ordering::Relaxed) > 0;
    if has_guards && !rt.advice.can_report_guards() {
        return Err(refused_state("guard pages (MADV_GUARD_INSTALL)", GUARDS));
    }
    Ok(())
}

/// Refuses mappings whose content is not memory, except rings that can be created anew.
fn check_mappings() -> Result<(), UserError> {
    if !kernel_aio::may_have_rings() {
        return Ok(());
    }
    let all = procmap::read_outside(zones())?;
    let is_device = |vma: &&Vma| zones().owner_at(vma, vma.range.start) == Owner::Device;
    let (rings, others): (Vec<&Vma>, Vec<&Vma>) = all
        .iter()
        .filter(is_device)
        .partition(|vma| kernel_aio::is_ring(vma));
    if let Some(vma) = others.first() {
        let path = String::from_utf8_lossy(&vma.path);
        return Err(refused_state(format!("{path} mapped"), MAPPED));
    }
    kernel_aio::check(&rings)
}

/// True for a process whose state cannot be rolled back to the checkpoint.
pub fn must_be_replaced(rt: &Runtime) -> bool {
    let result = rt
        .start
        .borrow()
        .check()
        .and_then(|()| check_limits())
        .and_then(|()| check_threads(rt))
        .and_then(|()| memory_policy::check());
    result
        .inspect_err(|why| log::info!("this process cannot be rolled back: {why}"))
        .is_err()
}
