//! Windows in the table.
#![allow(unsafe_code)]

use super::epochs::Epochs;
use super::rma_window::{AttributeCells, Window};
use super::window_hints::info_of;
use crate::Runtime;
use crate::abi;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, VirtWin, real_comm, real_win};
use crate::objects::attribute::value::Attributes;
use crate::objects::lookup::{PredefinedHandle, created_index};
use crate::objects::{comm, objects, objects_mut};
use std::cell::{Ref, RefMut};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;
use understudy_mpi::real_types::{RealComm, RealErrhandler, RealWin};

/// Keys of predefined attributes of windows (MPI 4.1, 12.2.6), as Open MPI numbers them.
const BASE: c_int = 7;
const SIZE: c_int = 8;
const DISP_UNIT: c_int = 9;
const CREATE_FLAVOR: c_int = 10;
const MODEL: c_int = 11;

/// Returns the program's handle of `MPI_WIN_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtWin {
    static NULL: PredefinedHandle = PredefinedHandle::new("ompi_mpi_win_null");
    VirtWin(NULL.get(rt))
}

/// Returns the program's handle of the window with this index.
pub fn handle(index: u32) -> VirtWin {
    VirtWin(handles::virtual_handle(HandleKind::Win, index))
}

/// Returns the index of a window.
pub fn index(rt: &Runtime, win: VirtWin) -> Option<u32> {
    created_index(HandleKind::Win, win.0).filter(|&index| objects(rt).windows.get(index).is_some())
}

/// Returns the recipe of a window.
pub fn get(rt: &Runtime, win: VirtWin) -> Option<Ref<'_, Window>> {
    let index = index(rt, win)?;
    Ref::filter_map(objects(rt), |all| all.windows.get(index)).ok()
}

/// Borrows the recipe of a window to change it.
pub fn get_mut(rt: &Runtime, win: VirtWin) -> Option<RefMut<'_, Window>> {
    let index = index(rt, win)?;
    RefMut::filter_map(objects_mut(rt), |all| all.windows.get_mut(index)).ok()
}

/// Returns the window's communicator, which the program does not see.
pub fn comm_of(rt: &Runtime, win: VirtWin) -> Option<VirtComm> {
    get(rt, win).map(|window| comm::handle(rt, window.comm))
}

/// True if spawned processes are members of the window.
///
/// Spawned processes run without the runtime, so the library alone implements such a window. The
/// window is never rebuilt.
pub fn has_spawned(rt: &Runtime, win: VirtWin) -> bool {
    comm_of(rt, win).is_some_and(|comm| comm::has_spawned(rt, comm))
}

/// Returns the program's handle of the error handler; zero for the default.
pub fn errhandler(rt: &Runtime, win: VirtWin) -> u64 {
    get(rt, win).map_or(0, |window| window.errhandler)
}

pub fn attributes(rt: &Runtime, win: VirtWin) -> Option<RefMut<'_, Attributes>> {
    get_mut(rt, win).map(|window| RefMut::map(window, |window| &mut window.attributes))
}

/// Returns the value of a predefined attribute: an address on the program side.
///
/// `None` for other keys.
pub fn predefined(rt: &Runtime, win: VirtWin, key: c_int) -> Option<u64> {
    let window = get(rt, win)?;
    let cell = |offset: usize| window.cells + offset as u64;
    match key {
        BASE => Some(window.base),
        SIZE => Some(cell(std::mem::offset_of!(AttributeCells, size))),
        DISP_UNIT => Some(cell(std::mem::offset_of!(AttributeCells, disp_unit))),
        CREATE_FLAVOR => Some(cell(std::mem::offset_of!(AttributeCells, flavor))),
        MODEL => Some(cell(std::mem::offset_of!(AttributeCells, model))),
        _ => None,
    }
}

/// Enters a window whose real window exists, and fills its cells.
pub fn register(rt: &Runtime, real: RealWin, window: Window) -> VirtWin {
    let cells = AttributeCells {
        size: window.size,
        disp_unit: window.disp_unit,
        flavor: abi::integer_for_program(Domain::WinFlavor, window.flavor as c_int),
        model: model(real),
    };
    // SAFETY: the caller passes a block of this size from the program's malloc(3).
    unsafe { (window.cells as *mut AttributeCells).write(cells) };
    return_errors(real);
    let info = info_of(rt, real);
    let index = objects_mut(rt).windows.insert(Window { info, ..window });
    handles::set_real(rt, HandleKind::Win, index, real.0);
    handle(index)
}

/// Removes a window whose real window has been freed.
pub fn remove(rt: &Runtime, index: u32) -> Option<Window> {
    handles::set_real(rt, HandleKind::Win, index, std::ptr::null_mut());
    rt.objects.direct.borrow_mut().remove(&index);
    objects_mut(rt).windows.remove(index)
}

/// Returns the memory model as a constant of the program's ABI.
///
/// The library has the ABI of the program.
fn model(win: RealWin) -> c_int {
    let (mut value, mut flag) = (std::ptr::null::<c_int>(), 0);
    // SAFETY: a window of the runtime; the value is the address of an integer.
    unsafe {
        match real::PMPI_Win_get_attr(win, MODEL, (&raw mut value).cast::<c_void>(), &mut flag) {
            0 if flag != 0 && !value.is_null() => *value,
            _ => abi::integer_for_program(Domain::WinModel, 0),
        }
    }
}

pub(super) fn return_errors(win: RealWin) {
    let handler = RealErrhandler(understudy_mpi::abi::object(c"ompi_mpi_errors_return"));
    // SAFETY: a window of the runtime and a predefined handler, which are valid in this MPI
    // instance.
    unsafe { real::PMPI_Win_set_errhandler(win, handler) };
}

/// Window with its real handle, its communicator and its open epochs.
pub(super) struct OrderedWindow {
    pub(super) index: u32,
    pub(super) real: RealWin,
    pub(super) comm: VirtComm,
    pub(super) epochs: Epochs,
}

/// Returns the windows without spawned processes, in one order for all members.
///
/// The order is that of their communicators' `uid`s.
pub(super) fn in_order(rt: &Runtime) -> Vec<OrderedWindow> {
    let all = objects(rt);
    let numbered = |(index, window): (u32, &Window)| {
        let comm = all.comms.get(window.comm)?;
        (!comm.has_spawned()).then_some((comm.uid, index))
    };
    let mut sorted: Vec<(u64, u32)> = all.windows.iter().filter_map(numbered).collect();
    sorted.sort_unstable();
    let known = |(_, index): (u64, u32)| {
        let window = all.windows.get(index)?;
        Some(OrderedWindow {
            index,
            real: real_win(rt, handle(index)),
            comm: comm::handle(rt, window.comm),
            epochs: window.epochs.clone(),
        })
    };
    sorted.into_iter().filter_map(known).collect()
}

/// Returns addresses and sizes in bytes of memory that other processes may write.
///
/// Only memory of this process on the program side is returned.
pub fn exposed(rt: &Runtime) -> Vec<(u64, u64)> {
    let all = objects(rt);
    let mut parts = Vec::new();
    for (_, window) in all.windows.iter() {
        if !window.is_in_library() {
            parts.push((window.base, window.size));
        }
        parts.extend_from_slice(&window.attached);
    }
    let is_nonempty = |&(base, size): &(u64, i64)| base != 0 && size > 0;
    parts
        .into_iter()
        .filter(is_nonempty)
        .map(|(base, size)| (base, size as u64))
        .collect()
}

pub(super) fn real_comm_of(rt: &Runtime, window: &Window) -> RealComm {
    real_comm(rt, comm::handle(rt, window.comm))
}
