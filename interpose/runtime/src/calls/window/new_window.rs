//! New windows: from a recipe without memory to an entry in the table.

use crate::arch::Rewound;
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtWin};
use crate::objects::comm;
use crate::objects::window::shared::Region;
use crate::objects::window::{self, Cells, Epochs, Flavor, Window};
use crate::user::heap;
use crate::{Runtime, recovery};
use std::ffi::c_int;
use understudy_mpi::real_types::RealWin;

/// Returns a window without memory.
pub(super) fn blank(rt: &Runtime, comm: VirtComm, flavor: Flavor) -> Window {
    Window {
        comm: comm::index(rt, comm).unwrap_or(comm::SELF),
        flavor,
        base: 0,
        size: 0,
        disp_unit: 1,
        cells: heap::zeros(size_of::<Cells>() as u64),
        block: 0,
        region: Region::default(),
        attached: Vec::new(),
        info: Vec::new(),
        no_locks: None,
        name: Vec::new(),
        errhandler: 0,
        attributes: Vec::new(),
        epochs: Epochs::default(),
    }
}

/// Releases all resources of a window except the real window.
pub(super) fn give_back(rt: &Runtime, window: &Window) {
    if comm::has_spawned(rt, comm::handle(rt, window.comm)) {
        // If no other object leads to the spawned processes, cuts may be taken again.
        comm::freed::part(rt, window.comm);
    } else if window.comm > comm::SELF {
        comm::freed::free(rt, window.comm, false);
    }
    heap::free(window.cells);
    heap::free(window.block);
}

/// Registers a window that a constructor has made.
///
/// If the constructor has failed, the memory is released.
pub(super) fn enter(
    rt: &Runtime,
    rc: c_int,
    window: Window,
    new: RealWin,
) -> Result<Result<VirtWin, c_int>, Rewound> {
    let rc = recovery::check(rt, rc)?;
    if rc != SUCCESS {
        window.region.unmap();
        give_back(rt, &window);
        return Ok(Err(rc));
    }
    Ok(Ok(window::register(rt, new, window)))
}
