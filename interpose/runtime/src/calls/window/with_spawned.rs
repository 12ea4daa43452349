//! Windows with spawned processes as members.
//!
//! Spawned processes run without the runtime, so the library implements these windows. No cut is
//! taken while such a window exists. A window is therefore never restored, and its memory may
//! belong to the library.
#![allow(unsafe_code)]

use super::new_window::{blank, register};
use crate::Runtime;
use crate::arch::Rewound;
use crate::errors::{ERR_COMM, ERR_NO_MEM, SUCCESS};
use crate::handles::{VirtComm, VirtInfo, VirtWin, real_comm, real_info};
use crate::objects::comm::create;
use crate::objects::window::{Window, WindowFlavor};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealComm, RealInfo, RealWin};

/// Creates a window on the program's communicator; `constructor` creates the real window.
pub(super) fn make(
    rt: &Runtime,
    comm: VirtComm,
    flavor: WindowFlavor,
    info: VirtInfo,
    constructor: impl FnOnce(&mut Window, RealComm, RealInfo, &mut RealWin) -> c_int,
) -> Result<Result<VirtWin, c_int>, Rewound> {
    let Some(members) = create::register_members(rt, comm) else {
        return Ok(Err(ERR_COMM));
    };
    let mut window = blank(rt, members, flavor);
    let mut new = RealWin(std::ptr::null_mut());
    let rc = match window.cells {
        0 => ERR_NO_MEM,
        _ => constructor(
            &mut window,
            real_comm(rt, comm),
            real_info(rt, info),
            &mut new,
        ),
    };
    register(rt, rc, window, new)
}

/// Procedure that creates a window with memory.
type AllocateProcedure =
    unsafe extern "C" fn(isize, c_int, RealInfo, RealComm, *mut c_void, *mut RealWin) -> c_int;

/// Allocates memory from the library.
///
/// # Safety
/// `baseptr` is the program's address for the address of the memory.
pub(super) unsafe fn allocate(
    window: &mut Window,
    (info, comm, new): (RealInfo, RealComm, &mut RealWin),
    baseptr: *mut c_void,
    allocate: AllocateProcedure,
) -> c_int {
    // SAFETY: the caller guarantees the arguments; the real library checks the rest.
    unsafe {
        let rc = allocate(
            window.size as isize,
            window.disp_unit,
            info,
            comm,
            baseptr,
            new,
        );
        if rc == SUCCESS {
            window.base = baseptr.cast::<u64>().read_unaligned();
        }
        rc
    }
}
