//! Procedures that create, free and describe windows.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::new_window::{blank, register, release};
use super::with_spawned;
use crate::arch::Rewound;
use crate::calls::arguments::{outcome, put_text};
use crate::calls::runtime;
use crate::error_handling::{finish_win, handle_error};
use crate::errors::{ERR_ARG, ERR_COMM, ERR_NO_MEM, ERR_WIN, SUCCESS};
use crate::generated::{HandleKind, Proc, real};
use crate::handles::{VirtComm, VirtGroup, VirtInfo, VirtWin, real_comm, real_info, real_win};
use crate::objects::comm::{self, create, hints};
use crate::objects::lookup::{from_fortran, to_fortran};
use crate::objects::window::shared::{self, Segment, SharedRegion};
use crate::objects::window::{self, Window, WindowFlavor, WindowHints};
use crate::objects::{attribute, group, info, objects};
use crate::user::heap;
use crate::{Runtime, recovery};
use crate::{attempt, copies, cut, drained, gather};
use std::ffi::{CStr, c_char, c_int, c_void};
use understudy_mpi::abi::limit;
use understudy_mpi::real_types::{RealComm, RealInfo, RealWin};

/// Alignment of memory from MPI_Win_allocate.
const ALIGNMENT: u64 = 64;

/// Creates a window; `constructor` creates the real window, and sets the memory.
///
/// The window gets a communicator of its own, unless `comm` contains spawned processes.
fn make(
    rt: &Runtime,
    comm: VirtComm,
    flavor: WindowFlavor,
    info: VirtInfo,
    constructor: impl FnOnce(&mut Window, RealComm, RealInfo, &mut RealWin) -> c_int,
) -> Result<Result<VirtWin, c_int>, Rewound> {
    if comm::has_spawned(rt, comm) {
        return with_spawned::make(rt, comm, flavor, info, constructor);
    }
    let mut hints = match WindowHints::read(rt, info) {
        Ok(hints) => hints,
        Err(rc) => return Ok(Err(rc)),
    };
    let mut made = None;
    // SAFETY: a communicator, and an address for the new handle.
    let duplicate = |new: &mut RealComm| unsafe { real::PMPI_Comm_dup(real_comm(rt, comm), new) };
    let rc = recovery::check(
        rt,
        create::make(
            rt,
            duplicate,
            |it| drained::is_comm_in_use(rt, it),
            &mut made,
        ),
    )?;
    let Some(window_comm) = made.filter(|_| rc == SUCCESS) else {
        return Ok(Err(rc));
    };
    let window_comm = create::register(rt, window_comm, comm);
    let mut window = blank(rt, window_comm, flavor);
    window.no_locks = hints.no_locks.take();
    let mut new = RealWin(std::ptr::null_mut());
    let rc = match gather::all_true(real_comm(rt, window_comm), window.cells != 0) {
        Ok(true) => constructor(
            &mut window,
            real_comm(rt, window_comm),
            hints.real,
            &mut new,
        ),
        Ok(false) => ERR_NO_MEM,
        Err(error) => error.code(),
    };
    register(rt, rc, window, new)
}

/// Checks the arguments that the runtime itself uses.
fn check_arguments(rt: &Runtime, comm: VirtComm, win: *mut VirtWin) -> Result<(), c_int> {
    match comm::get(rt, comm) {
        None => Err(ERR_COMM),
        Some(comm) if comm.remote.is_some() => Err(ERR_COMM),
        Some(_) if win.is_null() => Err(ERR_ARG),
        Some(_) => Ok(()),
    }
}

/// Creates a window in a handler, and returns from the handler after an error.
macro_rules! create_window {
    ($rt:expr, $procedure:expr, $comm:expr, $win:expr, $made:expr) => {{
        if let Err(rc) = check_arguments($rt, $comm, $win) {
            return handle_error($rt, $procedure, rc, Some($comm));
        }
        outcome!(cut::together($rt, $comm));
        match outcome!($made) {
            // SAFETY: null is excluded above; MPI requires any other address to be valid.
            Ok(window) => unsafe { $win.write(window) },
            Err(rc) => return handle_error($rt, $procedure, rc, Some($comm)),
        }
        copies::expose_windows($rt);
    }};
}

pub unsafe extern "C" fn MPI_Win_create(
    base: *mut c_void,
    size: isize,
    disp_unit: c_int,
    info: VirtInfo,
    comm: VirtComm,
    win: *mut VirtWin,
) -> c_int {
    let rt = runtime();
    create_window!(
        rt,
        Proc::MPI_Win_create,
        comm,
        win,
        make(
            rt,
            comm,
            WindowFlavor::Create,
            info,
            |window, window_comm, hints, new| {
                (window.base, window.size, window.disp_unit) =
                    (base as u64, size as i64, disp_unit);
                // SAFETY: MPI requires valid memory; the real library checks the rest.
                unsafe { real::PMPI_Win_create(base, size, disp_unit, hints, window_comm, new) }
            }
        )
    );
    SUCCESS
}

/// Gives the window memory that its members share.
fn share(window: &mut Window, window_comm: RealComm, region: SharedRegion) -> Result<(), c_int> {
    window.region = region;
    let rank = window_comm.rank().map_err(|error| error.code())?;
    window.base = window
        .region
        .segment(rank.0 as usize)
        .map_or(0, |(at, _)| at);
    Ok(())
}

/// Allocates memory for a window of `MPI_Win_allocate`; collective.
///
/// The members share the memory if possible. Otherwise the memory is a block of the program's
/// malloc(3), as from `MPI_Alloc_mem`.
fn allocate(rt: &Runtime, window: &mut Window, window_comm: RealComm) -> Result<(), c_int> {
    let segment = Segment {
        size: window.size,
        disp_unit: window.disp_unit,
        may_have_gap: true,
    };
    match shared::allocate_if_cheap(rt, window.comm, window_comm, segment) {
        Ok(Some(region)) => return share(window, window_comm, region),
        Ok(None) | Err(ERR_NO_MEM) => {}
        Err(rc) => return Err(rc),
    }
    window.block = heap::zeros(window.size.max(0) as u64 + ALIGNMENT);
    window.base = window.block.next_multiple_of(ALIGNMENT);
    match gather::all_true(window_comm, window.block != 0) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ERR_NO_MEM),
        Err(error) => Err(error.code()),
    }
}

pub unsafe extern "C" fn MPI_Win_allocate(
    size: isize,
    disp_unit: c_int,
    info: VirtInfo,
    comm: VirtComm,
    baseptr: *mut c_void,
    win: *mut VirtWin,
) -> c_int {
    let rt = runtime();
    create_window!(
        rt,
        Proc::MPI_Win_allocate,
        comm,
        win,
        make(
            rt,
            comm,
            WindowFlavor::Allocate,
            info,
            |window, window_comm, hints, new| {
                (window.size, window.disp_unit) = (size as i64, disp_unit);
                if comm::has_spawned(rt, comm) {
                    let allocate = real::PMPI_Win_allocate;
                    // SAFETY: MPI requires the program's address for the result to be valid.
                    return unsafe {
                        with_spawned::allocate(window, (hints, window_comm, new), baseptr, allocate)
                    };
                }
                if let Err(rc) = allocate(rt, window, window_comm) {
                    return rc;
                }
                let base = window.base as *mut c_void;
                // SAFETY: `allocate` has provided `size` bytes; MPI requires a valid address for
                // the result.
                unsafe {
                    baseptr.cast::<*mut c_void>().write_unaligned(base);
                    real::PMPI_Win_create(base, size, disp_unit, hints, window_comm, new)
                }
            }
        )
    );
    SUCCESS
}

/// `MPI_Win_allocate_shared`: the memory is the runtime's ([`shared`]).
pub unsafe extern "C" fn MPI_Win_allocate_shared(
    size: isize,
    disp_unit: c_int,
    info: VirtInfo,
    comm: VirtComm,
    baseptr: *mut c_void,
    win: *mut VirtWin,
) -> c_int {
    let rt = runtime();
    let segment = Segment {
        size: size as i64,
        disp_unit,
        may_have_gap: hints::pairs(real_info(rt, info))
            .iter()
            .any(|(key, value)| key == b"alloc_shared_noncontig" && value == b"true"),
    };
    create_window!(
        rt,
        Proc::MPI_Win_allocate_shared,
        comm,
        win,
        make(
            rt,
            comm,
            WindowFlavor::Shared,
            info,
            |window, window_comm, hints, new| {
                (window.size, window.disp_unit) = (size as i64, disp_unit);
                if comm::has_spawned(rt, comm) {
                    let allocate = real::PMPI_Win_allocate_shared;
                    // SAFETY: MPI requires the program's address for the result to be valid.
                    return unsafe {
                        with_spawned::allocate(window, (hints, window_comm, new), baseptr, allocate)
                    };
                }
                let region = shared::allocate(rt, window.comm, window_comm, segment);
                if let Err(rc) = region.and_then(|region| share(window, window_comm, region)) {
                    return rc;
                }
                // SAFETY: `share` has set the segment of this process; MPI requires a valid address
                // for the result.
                unsafe {
                    let base = window.base as *mut c_void;
                    baseptr.cast::<*mut c_void>().write_unaligned(base);
                    real::PMPI_Win_create(base, size, disp_unit, hints, window_comm, new)
                }
            }
        )
    );
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_create_dynamic(
    info: VirtInfo,
    comm: VirtComm,
    win: *mut VirtWin,
) -> c_int {
    let rt = runtime();
    create_window!(
        rt,
        Proc::MPI_Win_create_dynamic,
        comm,
        win,
        make(
            rt,
            comm,
            WindowFlavor::Dynamic,
            info,
            |_, window_comm, hints, new| {
                // SAFETY: the real library checks its arguments.
                unsafe { real::PMPI_Win_create_dynamic(hints, window_comm, new) }
            }
        )
    );
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_attach(win: VirtWin, base: *mut c_void, size: isize) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires valid memory; the real library checks the rest.
    let rc = attempt!(rt, unsafe {
        real::PMPI_Win_attach(real_win(rt, win), base, size)
    });
    if rc == SUCCESS {
        if let Some(mut window) = window::get_mut(rt, win) {
            window.attached.push((base as u64, size as i64));
        }
        copies::expose_windows(rt);
    }
    finish_win(rt, Proc::MPI_Win_attach, rc, win)
}

pub unsafe extern "C" fn MPI_Win_detach(win: VirtWin, base: *const c_void) -> c_int {
    let rt = runtime();
    // SAFETY: the real library checks its arguments.
    let rc = attempt!(rt, unsafe {
        real::PMPI_Win_detach(real_win(rt, win), base)
    });
    if rc == SUCCESS
        && let Some(mut window) = window::get_mut(rt, win)
        && let Some(position) = window
            .attached
            .iter()
            .position(|&(known, _)| known == base as u64)
    {
        window.attached.remove(position);
    }
    finish_win(rt, Proc::MPI_Win_detach, rc, win)
}

/// `MPI_Win_free`: collective; no member returns before all have called it.
pub unsafe extern "C" fn MPI_Win_free(win: *mut VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_free;
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let Some(handle) = (!win.is_null()).then(|| unsafe { *win }) else {
        return handle_error(rt, procedure, ERR_ARG, None);
    };
    let Some(index) = window::index(rt, handle) else {
        return handle_error(rt, procedure, ERR_WIN, None);
    };
    if let Some(comm) = window::comm_of(rt, handle) {
        outcome!(cut::together(rt, comm));
    }
    let rc = attribute::delete_win(rt, handle);
    if rc != SUCCESS {
        return finish_win(rt, procedure, rc, handle);
    }
    let mut real = real_win(rt, handle);
    // SAFETY: a window; after a success it is not used any longer.
    let free = || unsafe { real::PMPI_Win_free(&mut real) };
    let rc = attempt!(rt, window::passive::call_in_epochs(rt, handle, free));
    if rc != SUCCESS {
        return finish_win(rt, procedure, rc, handle);
    }
    if let Some(window) = window::remove(rt, index) {
        let window_comm = real_comm(rt, comm::handle(rt, window.comm));
        outcome!(recovery::check_own(
            rt,
            window.region.release(window_comm),
            "the members of a window cannot free it together"
        ));
        release(rt, &window);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    unsafe { *win = window::null_handle(rt) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_get_group(win: VirtWin, group: *mut VirtGroup) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_get_group;
    let window_comm = window::comm_of(rt, win);
    let Some((members, session)) =
        window_comm.and_then(|comm| Some((comm::members(rt, comm)?, comm::session(rt, comm))))
    else {
        return handle_error(rt, procedure, ERR_WIN, None);
    };
    if group.is_null() {
        return finish_win(rt, procedure, ERR_ARG, win);
    }
    match group::create(rt, members, session) {
        Ok(made) => {
            // SAFETY: MPI requires the program's address for the handle to be valid.
            unsafe { *group = made };
            SUCCESS
        }
        Err(rc) => finish_win(rt, procedure, rc, win),
    }
}

pub unsafe extern "C" fn MPI_Win_set_info(win: VirtWin, info: VirtInfo) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_set_info;
    let real = real_win(rt, win);
    let mut hints = match WindowHints::read(rt, info) {
        Ok(hints) => hints,
        Err(rc) => return finish_win(rt, procedure, rc, win),
    };
    // SAFETY: the real library checks its arguments.
    let rc = attempt!(rt, unsafe { real::PMPI_Win_set_info(real, hints.real) });
    if rc == SUCCESS
        && let Some(mut window) = window::get_mut(rt, win)
    {
        window.info = window::info_of(rt, real);
        window.no_locks = hints.no_locks.take().or(window.no_locks.take());
    }
    finish_win(rt, procedure, rc, win)
}

pub unsafe extern "C" fn MPI_Win_get_info(win: VirtWin, info_used: *mut VirtInfo) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_get_info;
    let hints = match window::get(rt, win) {
        None => Err(ERR_WIN),
        Some(_) if info_used.is_null() => Err(ERR_ARG),
        Some(window) => Ok(window::visible_hints(rt, &window, real_win(rt, win))),
    };
    let made = hints.and_then(|hints| info::create(rt, &hints));
    if let Ok(info) = made {
        // SAFETY: MPI requires the program's address for the handle to be valid.
        unsafe { *info_used = info };
    }
    finish_win(rt, procedure, made.err().unwrap_or(SUCCESS), win)
}

/// `MPI_Win_set_name`: truncates a name that is too long.
pub unsafe extern "C" fn MPI_Win_set_name(win: VirtWin, win_name: *const c_char) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_set_name;
    let Some(mut window) = window::get_mut(rt, win) else {
        return handle_error(rt, procedure, ERR_WIN, None);
    };
    if win_name.is_null() {
        drop(window);
        return finish_win(rt, procedure, ERR_ARG, win);
    }
    // SAFETY: MPI requires the program to pass a C string.
    let name = unsafe { CStr::from_ptr(win_name) }.to_bytes();
    window.name = name[..name.len().min(limit("MPI_MAX_OBJECT_NAME") - 1)].to_vec();
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_get_name(
    win: VirtWin,
    win_name: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_get_name;
    let name = match window::get(rt, win) {
        Some(window) => window.name.clone(),
        // The null handle also has a name (MPI 4.1, 7.8).
        None if win == window::null_handle(rt) => "MPI_WIN_NULL".into(),
        None => return handle_error(rt, procedure, ERR_WIN, None),
    };
    if win_name.is_null() || resultlen.is_null() {
        return finish_win(rt, procedure, ERR_ARG, win);
    }
    // SAFETY: MPI requires room for MPI_MAX_OBJECT_NAME characters; the name is shorter.
    unsafe {
        put_text(win_name, &name);
        *resultlen = name.len() as c_int;
    }
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_c2f(win: VirtWin) -> c_int {
    to_fortran(HandleKind::Win, win.0, || 0)
}

pub unsafe extern "C" fn MPI_Win_f2c(win: c_int) -> VirtWin {
    let rt = runtime();
    if win == 0 {
        return window::null_handle(rt);
    }
    let exists = |index| objects(rt).windows.get(index).is_some();
    VirtWin(from_fortran(
        rt,
        HandleKind::Win,
        win,
        exists,
        std::ptr::null_mut,
    ))
}
