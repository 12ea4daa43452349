//! Windows whose memory this process has mapped, in this MPI instance.

use super::direct::{DirectWindow, FlushWork};
use super::rma_window::Window;
use super::window_entries::{get, index};
use crate::Runtime;
use crate::handles::VirtWin;
use crate::world;
use std::ffi::c_int;
use std::io;
use std::rc::Rc;
use understudy_catalogue::message;
use understudy_formats::private_directories::SHARED_MEMORY_DIRECTORY;
use understudy_numbers::ProcessNumber;

/// Returns the locks and flags of a window; `None` if its memory is not mapped.
///
/// # Errors
/// Fails if the file of the window's locks cannot be mapped.
pub fn direct(rt: &Runtime, win: VirtWin) -> io::Result<Option<Rc<DirectWindow>>> {
    let Some(window) = get(rt, win).filter(|window| window.region.is_mapped()) else {
        return Ok(None);
    };
    let index = index(rt, win).unwrap_or_default();
    if let Some(known) = rt.objects.direct.borrow().get(&index) {
        return Ok(Some(Rc::clone(known)));
    }
    map_locks(rt, index, &window, &world::get(rt).process_of)
}

/// Maps the locks of the window with this index; `processes` are the workers' processes.
///
/// `None` if this process has not mapped the window's memory.
///
/// # Errors
/// Fails if the file of the window's locks cannot be mapped.
pub(super) fn map_locks(
    rt: &Runtime,
    index: u32,
    window: &Window,
    processes: &[ProcessNumber],
) -> io::Result<Option<Rc<DirectWindow>>> {
    if !window.region.is_mapped() {
        return Ok(None);
    }
    let new = DirectWindow::new(rt, window, processes).inspect_err(|why| {
        log::error!(
            "{}",
            message::window_locks_not_mapped(SHARED_MEMORY_DIRECTORY, why)
        );
    });
    let new = Rc::new(new?);
    rt.objects
        .direct
        .borrow_mut()
        .insert(index, Rc::clone(&new));
    Ok(Some(new))
}

/// Returns the work that a flush of a rank, or of all ranks, requires.
pub fn flush(rt: &Runtime, win: VirtWin, rank: Option<c_int>) -> FlushWork {
    let is_passive = get(rt, win).is_some_and(|window| window.epochs.is_passive(rank));
    match direct(rt, win) {
        Ok(Some(direct)) if is_passive => direct.flush(),
        _ => FlushWork::Library,
    }
}

/// Sets the flag for operations of the library that may be incomplete.
pub(super) fn set_busy(rt: &Runtime, win: VirtWin, is_busy: bool) {
    if let Ok(Some(direct)) = direct(rt, win) {
        direct.is_busy.set(is_busy);
    }
}
