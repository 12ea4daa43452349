//! Windows with spawned processes as members.
//!
//! Spawned processes run without the runtime, so the library implements these windows. No cut is
//! taken while one exists. So it is never restored, and its memory may be the library's.
#![allow(unsafe_code)]

use super::new_window::{blank, enter};
use crate::Runtime;
use crate::arch::Rewound;
use crate::errors::{ERR_COMM, ERR_NO_MEM, SUCCESS};
use crate::handles::{VirtComm, VirtInfo, VirtWin, real_comm, real_info};
use crate::objects::comm::create;
use crate::objects::window::{Flavor, Window};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealComm, RealInfo, RealWin};

/// Makes a window on the program's communicator; `constructor` fills in the rest.
pub(super) fn make(
    rt: &Runtime,
    comm: VirtComm,
    flavor: Flavor,
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
    enter(rt, rc, window, new)
}

/// Procedure that makes a window with memory.
type Allocate =
    unsafe extern "C" fn(isize, c_int, RealInfo, RealComm, *mut c_void, *mut RealWin) -> c_int;

/// Allocates memory from the library.
///
/// # Safety
/// `place` is the program's address for the result.
pub(super) unsafe fn allocate(
    window: &mut Window,
    (info, comm, new): (RealInfo, RealComm, &mut RealWin),
    place: *mut c_void,
    allocate: Allocate,
) -> c_int {
    // SAFETY: the caller guarantees the arguments; the real library checks the rest.
    unsafe {
        let rc = allocate(
            window.size as isize,
            window.disp_unit,
            info,
            comm,
            place,
            new,
        );
        if rc == SUCCESS {
            window.base = place.cast::<u64>().read_unaligned();
        }
        rc
    }
}
