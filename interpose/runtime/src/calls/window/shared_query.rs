//! Part of a window's memory that a process can load from (MPI 4.1, 12.2.3).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::Runtime;
use crate::abi::standard_version;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::finish_win;
use crate::errors::{ERR_ARG, ERR_RANK, ERR_WIN, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtWin, real_win};
use crate::objects::comm;
use crate::objects::window::{self, Window, WindowFlavor};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::PROC_NULL;

pub unsafe extern "C" fn MPI_Win_shared_query(
    win: VirtWin,
    rank: c_int,
    size: *mut isize,
    disp_unit: *mut c_int,
    baseptr: *mut c_void,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_shared_query;
    if window::has_spawned(rt, win) {
        // SAFETY: MPI requires the program's arguments to be valid.
        let rc = unsafe {
            real::PMPI_Win_shared_query(real_win(rt, win), rank, size, disp_unit, baseptr)
        };
        return finish_win(rt, procedure, attempt!(rt, rc), win);
    }
    let part = match window::get(rt, win) {
        None => Err(ERR_WIN),
        Some(_) if size.is_null() || disp_unit.is_null() || baseptr.is_null() => Err(ERR_ARG),
        Some(window) => reachable(rt, &window, rank),
    };
    if let Ok((bytes, unit, base)) = part {
        // SAFETY: null is excluded above; MPI requires other addresses to be valid.
        unsafe {
            size.write(bytes as isize);
            disp_unit.write(unit);
            baseptr.cast::<u64>().write_unaligned(base);
        }
    }
    finish_win(rt, procedure, part.err().unwrap_or(SUCCESS), win)
}

/// Returns size, displacement unit and address of a member's part in this process.
///
/// MPI_PROC_NULL denotes the first member with memory. If the members share memory, all parts are
/// mapped. In other windows only this process's own part is accessible; all other parts are
/// reported as empty, and MPI_PROC_NULL denotes rank 0. Libraries before MPI 4.1 refuse such
/// windows.
fn reachable(rt: &Runtime, window: &Window, rank: c_int) -> Result<(i64, c_int, u64), c_int> {
    const ERR_RMA_FLAVOR: c_int = 70;
    if window.flavor == WindowFlavor::Dynamic
        || (window.flavor != WindowFlavor::Shared && standard_version() < (4, 1))
    {
        return Err(ERR_RMA_FLAVOR);
    }
    if window.flavor == WindowFlavor::Shared || window.region.first_rank_with_memory().is_some() {
        let rank = match rank {
            PROC_NULL => window.region.first_rank_with_memory().unwrap_or(0),
            rank => usize::try_from(rank).unwrap_or(usize::MAX),
        };
        let (at, segment) = window.region.segment(rank).ok_or(ERR_RANK)?;
        return Ok((segment.size, segment.disp_unit, at));
    }
    match comm::rank_and_size(rt, comm::handle(rt, window.comm)) {
        Some((own, _)) if rank == own || (rank == PROC_NULL && own == 0) => {
            Ok((window.size, window.disp_unit, window.base))
        }
        Some((_, size)) if rank == PROC_NULL || (0..size).contains(&rank) => Ok((0, 1, 0)),
        _ => Err(ERR_RANK),
    }
}
