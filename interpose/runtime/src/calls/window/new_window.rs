//! New windows: from a recipe without memory to an entry in the table.

use crate::arch::Rewound;
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtWin};
use crate::objects::comm;
use crate::objects::window::shared::SharedRegion;
use crate::objects::window::{self, AttributeCells, Epochs, Window, WindowFlavor};
use crate::user::heap;
use crate::{Runtime, recovery};
use std::ffi::c_int;
use understudy_mpi::real_types::RealWin;

/// Returns a window without memory for data.
///
/// `cells` is 0 if there is no memory for the values of the predefined attributes.
pub(super) fn blank(rt: &Runtime, comm: VirtComm, flavor: WindowFlavor) -> Window {
    Window {
        comm: comm::index(rt, comm).unwrap_or(comm::SELF),
        flavor,
        base: 0,
        size: 0,
        disp_unit: 1,
        cells: heap::zeros(size_of::<AttributeCells>() as u64),
        block: 0,
        region: SharedRegion::default(),
        attached: Vec::new(),
        info: Vec::new(),
        no_locks: None,
        name: Vec::new(),
        errhandler: 0,
        attributes: Vec::new(),
        epochs: Epochs::default(),
    }
}

/// Releases the communicator and the heap memory of a window.
///
/// The real window and the memory that members share are released by the caller.
pub(super) fn release(rt: &Runtime, window: &Window) {
    if comm::has_spawned(rt, comm::handle(rt, window.comm)) {
        // If no other communicator contains the spawned processes, cuts may be taken again.
        comm::freed::remove_disconnected(rt, window.comm);
    } else if window.comm > comm::SELF {
        comm::freed::free(rt, window.comm, false);
    }
    heap::free(window.cells);
    heap::free(window.block);
}

/// Registers a window that a constructor has created.
///
/// Releases the window's resources if the constructor has failed.
pub(super) fn register(
    rt: &Runtime,
    rc: c_int,
    window: Window,
    new: RealWin,
) -> Result<Result<VirtWin, c_int>, Rewound> {
    let rc = recovery::check(rt, rc)?;
    if rc != SUCCESS {
        window.region.unmap();
        release(rt, &window);
        return Ok(Err(rc));
    }
    Ok(Ok(window::register(rt, new, window)))
}
