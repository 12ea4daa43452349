//! Rebuild of windows in the next MPI instance.
#![allow(unsafe_code)]

use super::direct::DirectWindow;
use super::direct_windows;
use super::epochs::Epochs;
use super::rma_window::{Window, WindowFlavor};
use super::window_entries::{in_order, real_comm_of, return_errors};
use super::window_hints::info_with;
use crate::Runtime;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtWin, real_win};
use crate::objects::objects;
use std::ffi::c_void;
use understudy_mpi::real_types::{RealInfo, RealWin};
use understudy_mpi::{self as mpi, check};
use understudy_numbers::ProcessNumber;

/// Creates the windows of workers from their recipes, and reopens the epochs that were open.
///
/// Collective over the workers, whose communicators exist and whose processes are `processes`.
///
/// # Errors
/// Fails if a real procedure fails or locks cannot be mapped or taken; all workers then begin again
/// in another MPI instance.
pub fn rebuild(rt: &Runtime, processes: &[ProcessNumber]) -> mpi::Result<()> {
    for ordered in in_order(rt) {
        let Some(window) = objects(rt).windows.get(ordered.index).cloned() else {
            continue;
        };
        let mut info = info_with(rt, &window.info).map_err(|_| mpi::Error::INTERN)?;
        let made = make(rt, &window, info);
        // SAFETY: `info_with` has created the info object, which is not used any more.
        unsafe { real::PMPI_Info_free(&mut info) };
        let real = made?;
        handles::set_real(rt, HandleKind::Win, ordered.index, real.0);
        return_errors(real);
        let direct = direct_windows::map_locks(rt, ordered.index, &window, processes)
            .map_err(|_| mpi::Error::INTERN)?;
        match direct.filter(|direct| direct.has_locks()) {
            Some(direct) => {
                retake_locks(&direct, &ordered.epochs)?;
                direct
                    .library_epochs()
                    .open_among(ordered.epochs)
                    .open(real)?;
            }
            None => ordered.epochs.open(real)?,
        }
    }
    Ok(())
}

/// Takes the locks that were held at a cut.
fn retake_locks(own: &DirectWindow, epochs: &Epochs) -> mpi::Result<()> {
    let mut taken = epochs.locks.iter().map(|(rank, arguments)| {
        let kind = arguments.kind();
        kind.is_some_and(|kind| own.take(rank, kind, true))
    });
    let take_lock_all = || {
        let kind = epochs.lock_all_kind();
        kind.is_none_or(|kind| own.take_all(kind, true))
    };
    if taken.all(|is_taken| is_taken) && take_lock_all() {
        Ok(())
    } else {
        Err(mpi::Error::INTERN)
    }
}

fn make(rt: &Runtime, window: &Window, info: RealInfo) -> mpi::Result<RealWin> {
    let comm = real_comm_of(rt, window);
    let mut new = real_win(rt, VirtWin(std::ptr::null_mut()));
    // SAFETY: the program's memory was valid for this window at the cut, and has been restored. All
    // members of the communicator make this call.
    unsafe {
        match window.flavor {
            WindowFlavor::Create | WindowFlavor::Allocate | WindowFlavor::Shared => {
                let (base, size) = (window.base as *mut c_void, window.size as isize);
                check(real::PMPI_Win_create(
                    base,
                    size,
                    window.disp_unit,
                    info,
                    comm,
                    &mut new,
                ))?;
            }
            WindowFlavor::Dynamic => {
                check(real::PMPI_Win_create_dynamic(info, comm, &mut new))?;
                for &(base, size) in &window.attached {
                    check(real::PMPI_Win_attach(
                        new,
                        base as *mut c_void,
                        size as isize,
                    ))?;
                }
            }
        }
    }
    Ok(new)
}

/// Discards the real windows of a library that has been reset.
pub fn discard_reals(rt: &Runtime) {
    rt.objects.discard_recent_part();
    rt.objects.direct.borrow_mut().clear();
    for (index, _) in objects(rt).windows.iter() {
        handles::set_real(rt, HandleKind::Win, index, std::ptr::null_mut());
    }
}
