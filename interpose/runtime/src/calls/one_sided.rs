//! Put and Get on windows, and operations with requests (MPI 4.1, 12.3).
//!
//! This process executes Put and Get of predefined datatypes itself if it has the target's memory
//! mapped. The library executes all other operations.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]

use crate::Runtime;
use crate::attempt;
use crate::error_handling::{finish_win, handle_error};
use crate::errors::{ERR_ARG, ERR_WIN, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtRequest, VirtWin, real_datatype};
use crate::objects::{datatype, window};
use crate::requests::{self, RequestKind, RequestState};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{Ordering, fence};
use understudy_mpi::real_types::{RealRequest, RealWin};

/// Starts an operation and records its request.
///
/// No cut is taken before the request completes, so the request is not part of any checkpoint.
///
/// # Safety
/// `request` is the program's address for the request, or null.
pub(super) unsafe fn start(
    rt: &Runtime,
    procedure: Proc,
    win: VirtWin,
    request: *mut VirtRequest,
    operation: impl FnOnce(RealWin, &mut RealRequest) -> c_int,
) -> c_int {
    let Some(comm) = window::comm_of(rt, win) else {
        return handle_error(rt, procedure, ERR_WIN, None);
    };
    if request.is_null() {
        return finish_win(rt, procedure, ERR_ARG, win);
    }
    let mut new = RealRequest(std::ptr::null_mut());
    let rc = attempt!(
        rt,
        window::passive::start_in_epochs(rt, win, |real| operation(real, &mut new))
    );
    if rc == SUCCESS {
        // SAFETY: null is excluded above; MPI requires any other address to be valid.
        unsafe {
            request.write(requests::add(
                rt,
                comm,
                RequestKind::OneSided,
                RequestState::Active,
                new,
            ))
        };
    }
    finish_win(rt, procedure, rc, win)
}

/// Completes an operation without a request.
///
/// `direct_rc` is the return code if this process has executed the operation; otherwise the
/// library executes the operation.
pub(super) fn finish(
    rt: &Runtime,
    procedure: Proc,
    win: VirtWin,
    direct_rc: Option<c_int>,
    library: impl FnOnce(RealWin) -> c_int,
) -> c_int {
    if direct_rc == Some(SUCCESS) {
        return SUCCESS;
    }
    let rc = attempt!(
        rt,
        direct_rc.unwrap_or_else(|| window::passive::start_in_epochs(rt, win, library))
    );
    finish_win(rt, procedure, rc, win)
}

/// Returns the number of bytes of elements of a predefined datatype without gaps.
///
/// `None` for other datatypes and for an invalid count.
fn bytes_of(rt: &Runtime, count: c_int, datatype: VirtDatatype) -> Option<u64> {
    if !datatype::is_predefined(rt, datatype) {
        return None;
    }
    let (mut size, mut bound, mut extent) = (0, 0, 0);
    let real = real_datatype(rt, datatype);
    // SAFETY: local queries of a datatype.
    let codes = unsafe {
        [
            real::PMPI_Type_size(real, &mut size),
            real::PMPI_Type_get_extent(real, &mut bound, &mut extent),
        ]
    };
    let is_plain = codes == [SUCCESS; 2] && extent == size as isize;
    is_plain
        .then(|| Some(u64::try_from(count).ok()? * size as u64))
        .flatten()
}

/// Returns address and length of a target that this process can load or store itself.
///
/// `origin` and `target` are the counts and datatypes of both sides. `None` for derived datatypes,
/// targets on other nodes, and errors, which the library handles.
fn mapped_target(
    rt: &Runtime,
    win: VirtWin,
    (rank, disp): (c_int, isize),
    origin: (c_int, VirtDatatype),
    target: (c_int, VirtDatatype),
) -> Option<(*mut u8, usize)> {
    if origin == target
        && let Some((at, bytes)) =
            window::recent_access::cached_memory(rt, win, (rank, disp), origin)
    {
        return Some((at as *mut u8, bytes as usize));
    }
    let window = window::get(rt, win).filter(|window| window.region.is_mapped())?;
    let bytes = bytes_of(rt, origin.0, origin.1)?;
    if origin != target && bytes_of(rt, target.0, target.1)? != bytes {
        return None;
    }
    let at = window.accessible_address(rt, rank, disp, 0, bytes)?;
    drop(window);
    if origin == target && origin.0 > 0 {
        window::recent_access::cache_part(rt, win, rank, origin.1, bytes / origin.0 as u64);
    }
    Some((at as *mut u8, bytes as usize))
}

/// Copies from the program's buffer to the target.
///
/// # Safety
/// `origin` is the program's buffer, and `target` is memory inside of the window.
unsafe fn store(origin: *const c_void, target: *mut u8, bytes: usize) {
    // SAFETY: the caller passes a buffer and window memory of `bytes` bytes each.
    unsafe { target.copy_from(origin.cast(), bytes) };
    fence(Ordering::Release);
}

/// Copies from the target to the program's buffer.
///
/// # Safety
/// As for [`store`].
unsafe fn load(origin: *mut c_void, target: *mut u8, bytes: usize) {
    fence(Ordering::Acquire);
    // SAFETY: the caller passes a buffer and window memory of `bytes` bytes each.
    unsafe { origin.cast::<u8>().copy_from(target, bytes) };
}

macro_rules! transfers {
    ($($name:ident, $real:ident, $rname:ident, $rreal:ident, $origin:ty, $copy:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub unsafe extern "C" fn $name(
            origin_addr: $origin, origin_count: c_int, origin_datatype: VirtDatatype,
            target_rank: c_int, target_disp: isize,
            target_count: c_int, target_datatype: VirtDatatype, win: VirtWin,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            let origin = (origin_count, origin_datatype);
            let target = (target_count, target_datatype);
            if let Some((memory, bytes)) =
                mapped_target(rt, win, (target_rank, target_disp), origin, target)
            {
                // SAFETY: MPI requires a valid buffer; `memory` is inside of the window.
                unsafe { $copy(origin_addr, memory, bytes) };
                return SUCCESS;
            }
            let real_type = |datatype| real_datatype(rt, datatype);
            let [origin, target] = [origin_datatype, target_datatype].map(real_type);
            // SAFETY: MPI requires the program's arguments to be valid.
            finish(rt, Proc::$name, win, None, |win| unsafe {
                real::$real(
                    origin_addr, origin_count, origin, target_rank, target_disp, target_count,
                    target, win
                )
            })
        }
        #[doc = concat!("`", stringify!($rname), "`")]
        pub unsafe extern "C" fn $rname(
            origin_addr: $origin, origin_count: c_int, origin_datatype: VirtDatatype,
            target_rank: c_int, target_disp: isize,
            target_count: c_int, target_datatype: VirtDatatype, win: VirtWin,
            request: *mut VirtRequest,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            let real_type = |datatype| real_datatype(rt, datatype);
            let [origin, target] = [origin_datatype, target_datatype].map(real_type);
            // SAFETY: MPI requires the program's arguments to be valid.
            unsafe {
                start(rt, Proc::$rname, win, request, |win, new| {
                    real::$rreal(
                        origin_addr, origin_count, origin, target_rank, target_disp, target_count,
                        target, win, new
                    )
                })
            }
        }
    )*};
}

transfers! {
    MPI_Put, PMPI_Put, MPI_Rput, PMPI_Rput, *const c_void, store;
    MPI_Get, PMPI_Get, MPI_Rget, PMPI_Rget, *mut c_void, load;
}
