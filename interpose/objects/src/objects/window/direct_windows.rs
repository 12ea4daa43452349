//! Windows whose memory this process has mapped, in this MPI instance.

use super::direct::{Direct, Flush};
use super::rma_window::Window;
use super::window_entries::{get, index};
use crate::Runtime;
use crate::handles::VirtWin;
use crate::world;
use std::ffi::c_int;
use std::io;
use std::rc::Rc;
use understudy_catalogue::message;
use understudy_formats::private::MEMORY;
use understudy_numbers::ProcessNumber;

/// Returns a window whose memory this process has mapped.
///
/// # Errors
/// The file of its locks cannot be mapped.
pub fn direct(rt: &Runtime, win: VirtWin) -> io::Result<Option<Rc<Direct>>> {
    let Some(window) = get(rt, win).filter(|window| window.region.is_mapped()) else {
        return Ok(None);
    };
    let number = index(rt, win).unwrap_or_default();
    if let Some(known) = rt.objects.direct.borrow().get(&number) {
        return Ok(Some(Rc::clone(known)));
    }
    renew(rt, number, &window, &world::get(rt).players)
}

/// Maps the locks of the window with this index; `players` are the workers' processes.
///
/// # Errors
/// As [`direct`].
pub(super) fn renew(
    rt: &Runtime,
    index: u32,
    window: &Window,
    players: &[ProcessNumber],
) -> io::Result<Option<Rc<Direct>>> {
    if !window.region.is_mapped() {
        return Ok(None);
    }
    let new = Direct::new(rt, window, players).inspect_err(|why| {
        log::error!("{}", message::window_locks_not_mapped(MEMORY, why));
    });
    let new = Rc::new(new?);
    rt.objects
        .direct
        .borrow_mut()
        .insert(index, Rc::clone(&new));
    Ok(Some(new))
}

/// Returns the wait that a flush of a rank, or of all ranks, needs.
pub fn flush(rt: &Runtime, win: VirtWin, rank: Option<c_int>) -> Flush {
    let is_passive = get(rt, win).is_some_and(|window| window.epochs.are_passive(rank));
    match direct(rt, win) {
        Ok(Some(direct)) if is_passive => direct.flush(),
        _ => Flush::Library,
    }
}

/// Sets the flag for operations of the library that may be incomplete.
pub(super) fn set_busy(rt: &Runtime, win: VirtWin, is: bool) {
    if let Ok(Some(direct)) = direct(rt, win) {
        direct.is_busy.set(is);
    }
}
