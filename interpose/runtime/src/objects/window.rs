//! Windows (MPI 4.1, chapter 12): recipes, and which epochs are open.
//!
//! Each window has a communicator of its own in the table, which the program does not know: that tells the members, is made
//! again like any other, and its `uid` says in which order windows are made again. Memory that members share is the layer's; all
//! other is the program's.
#![allow(unsafe_code)]

mod direct;
mod epochs;
mod held;
mod locks;
mod number;
pub mod passive;
mod quiet;
mod rebuild;
pub mod recent;
pub mod shared;
mod told;

use super::attribute::value::Attributes;
use super::comm::hints::{self, Pairs};
use super::lookup::{Predefined, created};
use super::{comm, info, objects, objects_mut};
use crate::abi;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, VirtInfo, VirtWin, real_comm, real_info, real_win};
use crate::objects::Runtime;
pub use direct::{Direct, Flush, direct};
pub use epochs::{Epochs, Hold, LOCK_SHARED, NO_CHECK};
pub use quiet::{meet_again, quiesce};
pub use rebuild::{drop_reals, rebuild};
use shared::Region;
use std::cell::{Ref, RefMut};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;
use understudy_mpi::real_types::{RealComm, RealErrhandler, RealInfo, RealWin};

/// The keys of predefined attributes of windows (MPI 4.1, 12.2.6) in Open MPI's numbers.
const BASE: c_int = 7;
const SIZE: c_int = 8;
const DISP_UNIT: c_int = 9;
const CREATE_FLAVOR: c_int = 10;
const MODEL: c_int = 11;

/// The hint that a window is never locked. It would not be true, since general epochs are made of locks.
pub const NO_LOCKS: &[u8] = b"no_locks";

/// By which procedure a window was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Flavor {
    Create = 1,
    Allocate = 2,
    Dynamic = 3,
    Shared = 4,
}

/// What is needed to make a window again, and what the program has attached to it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Window {
    /// Index of its communicator.
    pub comm: u32,
    /// How it was made.
    pub flavor: Flavor,
    /// Address of this process's part on the user side.
    pub base: u64,
    /// Its bytes.
    pub size: i64,
    /// Bytes of a unit of displacements.
    pub disp_unit: i32,
    /// Address of [`Cells`] on the user side, which malloc(3) has given.
    pub cells: u64,
    /// What malloc(3) has given for the memory of MPI_Win_allocate, if that is not shared; or 0.
    pub block: u64,
    /// Memory that the members share.
    pub region: Region,
    /// Memory that is attached to a dynamic window: address and bytes, in the order of attaching.
    pub attached: Vec<(u64, i64)>,
    /// Hints: key and value.
    pub info: Pairs,
    /// What the program has said of the hint [`NO_LOCKS`], of which the library hears nothing.
    pub no_locks: Option<Vec<u8>>,
    /// The name that the program has set. C strings need not be UTF-8.
    pub name: Vec<u8>,
    /// The error handler: the program's handle; 0: the default.
    pub errhandler: u64,
    /// Attributes: key and value.
    pub attributes: Attributes,
    pub epochs: Epochs,
}

/// Values of predefined attributes on the user side, to which the program gets the addresses.
#[repr(C)]
pub struct Cells {
    size: i64,
    disp_unit: c_int,
    flavor: c_int,
    model: c_int,
}

/// `MPI_WIN_NULL` as the program knows it.
pub fn null_handle(rt: &Runtime) -> VirtWin {
    static NULL: Predefined = Predefined::new("ompi_mpi_win_null");
    VirtWin(NULL.get(rt))
}

impl Window {
    /// Whether its memory is the library's own, which no copy has.
    fn is_in_library(&self) -> bool {
        let is_allocated = matches!(self.flavor, Flavor::Allocate | Flavor::Shared);
        is_allocated && self.block == 0 && !self.region.is_mapped()
    }

    /// Where this displacement is in a member's part, if this process shares that and an epoch is open in which it may load and store
    /// there `bytes` from `first` on, which is counted from the displacement.
    pub fn open_memory(
        &self,
        rt: &Runtime,
        rank: c_int,
        disp: isize,
        first: isize,
        bytes: u64,
    ) -> Option<u64> {
        let member = usize::try_from(rank).ok()?;
        let (base, segment) = self.region.segment(member)?;
        let at = disp.checked_mul(isize::try_from(segment.disp_unit).ok()?)?;
        let begin = u64::try_from(at.checked_add(first)?).ok()?;
        let is_inside = begin.checked_add(bytes)? <= u64::try_from(segment.size).ok()?;
        (is_inside && self.epochs.admit(rank) && self.region.reaches(rt, member))
            .then_some(base.wrapping_add_signed(at as i64))
    }
}

/// The program's handle of the window with this index.
pub fn handle(index: u32) -> VirtWin {
    VirtWin(handles::virtual_handle(HandleKind::Win, index))
}

/// The index of a window.
pub fn index(rt: &Runtime, win: VirtWin) -> Option<u32> {
    created(HandleKind::Win, win.0).filter(|&index| objects(rt).windows.get(index).is_some())
}

/// The recipe of a window.
pub fn get(rt: &Runtime, win: VirtWin) -> Option<Ref<'_, Window>> {
    let index = index(rt, win)?;
    Ref::filter_map(objects(rt), |all| all.windows.get(index)).ok()
}

/// The same, to be changed.
pub fn get_mut(rt: &Runtime, win: VirtWin) -> Option<RefMut<'_, Window>> {
    let index = index(rt, win)?;
    RefMut::filter_map(objects_mut(rt), |all| all.windows.get_mut(index)).ok()
}

/// Opens or closes epochs of a window.
pub fn change_epochs(rt: &Runtime, win: VirtWin, change: impl FnOnce(&mut Epochs)) {
    let Some(index) = index(rt, win) else { return };
    if let Some(window) = rt.objects.borrow_mut().windows.get_mut(index) {
        change(&mut window.epochs);
        recent::refresh(rt, win, &window.epochs);
    }
}

/// Its communicator, which the program does not know.
pub fn comm_of(rt: &Runtime, win: VirtWin) -> Option<VirtComm> {
    get(rt, win).map(|window| comm::handle(rt, window.comm))
}

/// Whether spawned processes have it, too. Then it is the library's alone, since they run without the layer, and never comes back.
pub fn has_spawned(rt: &Runtime, win: VirtWin) -> bool {
    comm_of(rt, win).is_some_and(|comm| comm::has_spawned(rt, comm))
}

/// The program's handle of the error handler; 0: the default.
pub fn errhandler(rt: &Runtime, win: VirtWin) -> u64 {
    get(rt, win).map_or(0, |window| window.errhandler)
}

pub fn attributes(rt: &Runtime, win: VirtWin) -> Option<RefMut<'_, Attributes>> {
    get_mut(rt, win).map(|window| RefMut::map(window, |window| &mut window.attributes))
}

/// The value of a predefined attribute: an address on the user side; nothing for other keys.
pub fn predefined(rt: &Runtime, win: VirtWin, key: c_int) -> Option<u64> {
    let window = get(rt, win)?;
    let cell = |offset: usize| window.cells + offset as u64;
    match key {
        BASE => Some(window.base),
        SIZE => Some(cell(std::mem::offset_of!(Cells, size))),
        DISP_UNIT => Some(cell(std::mem::offset_of!(Cells, disp_unit))),
        CREATE_FLAVOR => Some(cell(std::mem::offset_of!(Cells, flavor))),
        MODEL => Some(cell(std::mem::offset_of!(Cells, model))),
        _ => None,
    }
}

/// Enters a window, whose real one is there, and fills its cells.
pub fn register(rt: &Runtime, real: RealWin, window: Window) -> VirtWin {
    let cells = Cells {
        size: window.size,
        disp_unit: window.disp_unit,
        flavor: abi::integer_for_program(Domain::WinFlavor, window.flavor as c_int),
        model: model(real),
    };
    // SAFETY: so many bytes of the program's malloc(3).
    unsafe { (window.cells as *mut Cells).write(cells) };
    return_errors(real);
    let info = info_of(rt, real);
    let index = objects_mut(rt).windows.insert(Window { info, ..window });
    handles::set_real(rt, HandleKind::Win, index, real.0);
    handle(index)
}

/// Removes a window whose real one has gone.
pub fn remove(rt: &Runtime, index: u32) -> Option<Window> {
    handles::set_real(rt, HandleKind::Win, index, std::ptr::null_mut());
    rt.direct.borrow_mut().remove(&index);
    objects_mut(rt).windows.remove(index)
}

/// The memory model, in the program's constants: its ABI is the library's.
fn model(win: RealWin) -> c_int {
    let (mut at, mut flag) = (std::ptr::null::<c_int>(), 0);
    // SAFETY: a window of ours; the value is the address of an integer.
    unsafe {
        match real::PMPI_Win_get_attr(win, MODEL, (&raw mut at).cast::<c_void>(), &mut flag) {
            0 if flag != 0 && !at.is_null() => *at,
            _ => abi::integer_for_program(Domain::WinModel, 0),
        }
    }
}

fn return_errors(win: RealWin) {
    let handler = RealErrhandler(understudy_mpi::abi::object(c"ompi_mpi_errors_return"));
    // SAFETY: a window and the predefined handler.
    unsafe { real::PMPI_Win_set_errhandler(win, handler) };
}

/// The hints of a real window.
pub fn info_of(rt: &Runtime, win: RealWin) -> Pairs {
    let mut info = hints::null_info(rt);
    // SAFETY: a window of ours; the info object is ours then.
    unsafe {
        if real::PMPI_Win_get_info(win, &mut info) != 0 {
            return Vec::new();
        }
        let found = hints::pairs(info);
        real::PMPI_Info_free(&mut info);
        found
    }
}

/// The program's hints for a window, as the library is to hear them.
pub struct Hints {
    /// What the program says of [`NO_LOCKS`].
    pub no_locks: Option<Vec<u8>>,
    pub real: RealInfo,
    is_own: bool,
}

impl Hints {
    /// Those of an info object.
    ///
    /// # Errors
    /// That of a real procedure.
    pub fn of(rt: &Runtime, info: VirtInfo) -> Result<Hints, c_int> {
        let mut pairs = info::pairs(rt, info);
        let said = pairs.iter().find(|(key, _)| key == NO_LOCKS);
        let no_locks = said.map(|(_, value)| value.clone());
        pairs.retain(|(key, _)| key != NO_LOCKS);
        let is_own = no_locks.is_some();
        let real = if is_own {
            info_with(rt, &pairs)?
        } else {
            real_info(rt, info)
        };
        Ok(Hints {
            no_locks,
            real,
            is_own,
        })
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: an info object of ours.
            unsafe { real::PMPI_Info_free(&mut self.real) };
        }
    }
}

/// The hints of a window as the program is told.
pub fn told_hints(rt: &Runtime, window: &Window, real: RealWin) -> Pairs {
    let mut pairs = info::Info {
        pairs: info_of(rt, real),
    };
    if let Some(value) = &window.no_locks {
        pairs.set(NO_LOCKS, value);
    }
    pairs.pairs
}

/// A real info object with these hints, to be freed.
fn info_with(rt: &Runtime, pairs: &Pairs) -> Result<RealInfo, c_int> {
    info::make(
        rt,
        &info::Info {
            pairs: pairs.clone(),
        },
    )
}

/// A window as the library and the layer know it.
struct Known {
    index: u32,
    real: RealWin,
    comm: VirtComm,
    epochs: Epochs,
}

/// All windows of workers only, in an order that is the same in all members: that of their communicators' numbers.
fn in_order(rt: &Runtime) -> Vec<Known> {
    let all = objects(rt);
    let numbered = |(index, window): (u32, &Window)| {
        let comm = all.comms.get(window.comm)?;
        (!comm.has_spawned()).then_some((comm.uid, index))
    };
    let mut sorted: Vec<(u64, u32)> = all.windows.iter().filter_map(numbered).collect();
    sorted.sort_unstable();
    let known = |(_, index): (u64, u32)| {
        let window = all.windows.get(index)?;
        Some(Known {
            index,
            real: real_win(rt, handle(index)),
            comm: comm::handle(rt, window.comm),
            epochs: window.epochs.clone(),
        })
    };
    sorted.into_iter().filter_map(known).collect()
}

/// Addresses and bytes of this process's memory that others may write.
pub fn exposed(rt: &Runtime) -> Vec<(u64, u64)> {
    let all = objects(rt);
    let mut parts = Vec::new();
    for (_, window) in all.windows.iter() {
        if !window.is_in_library() {
            parts.push((window.base, window.size));
        }
        parts.extend_from_slice(&window.attached);
    }
    let is_some = |&(base, size): &(u64, i64)| base != 0 && size > 0;
    parts
        .into_iter()
        .filter(is_some)
        .map(|(base, size)| (base, size as u64))
        .collect()
}

fn real_comm_of(rt: &Runtime, window: &Window) -> RealComm {
    real_comm(rt, comm::handle(rt, window.comm))
}
