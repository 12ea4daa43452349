//! Cache of the most recently accessed part of a window, for loops of operations.
//!
//! The cache is valid until any object except a window's epochs changes
//! ([`objects_mut`](crate::objects::objects_mut)), or a recovery begins.
#![allow(unsafe_code)]

use super::direct::{DirectWindow, FlushWork};
use super::direct_windows;
use super::epochs::Epochs;
use super::number_type::NumberType;
use super::own_locks::LockArguments;
use super::recent_part::RecentPart;
use super::rma_window::Window;
use super::window_entries::{get, index};
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtDatatype, VirtWin};
use crate::objects::lookup::{PredefinedHandle, created_index};
use std::ffi::{c_int, c_void};
use std::rc::Rc;

static NUMBERS: [(PredefinedHandle, NumberType); 8] = [
    (PredefinedHandle::new("ompi_mpi_double"), NumberType::F64),
    (PredefinedHandle::new("ompi_mpi_float"), NumberType::F32),
    (PredefinedHandle::new("ompi_mpi_int"), NumberType::I32),
    (PredefinedHandle::new("ompi_mpi_unsigned"), NumberType::I32),
    (PredefinedHandle::new("ompi_mpi_long"), NumberType::I64),
    (
        PredefinedHandle::new("ompi_mpi_unsigned_long"),
        NumberType::I64,
    ),
    (PredefinedHandle::new("ompi_mpi_int64_t"), NumberType::I64),
    (PredefinedHandle::new("ompi_mpi_uint64_t"), NumberType::I64),
];

/// Returns the type of a datatype's elements, if this process can add them itself.
fn number_of(rt: &Runtime, datatype: VirtDatatype) -> Option<NumberType> {
    let found = NUMBERS
        .iter()
        .find(|(known, _)| known.get(rt) == datatype.0);
    found.map(|&(_, number)| number)
}

/// Returns address and size in bytes of `count` elements in the cached part.
///
/// `None` unless the part was accessed with this datatype and contains the elements.
#[inline]
pub fn cached_memory(
    rt: &Runtime,
    win: VirtWin,
    (rank, disp): (c_int, isize),
    (count, datatype): (c_int, VirtDatatype),
) -> Option<(u64, u64)> {
    let recent = rt.objects.recent.borrow();
    let recent = recent.as_ref()?;
    let is_cached = recent.matches(win, rank) && recent.datatype == datatype;
    is_cached.then(|| recent.memory(disp, count)).flatten()
}

/// Returns the window of the cached part, if it is `win`.
pub(super) fn cached_window(rt: &Runtime, win: VirtWin) -> Option<Rc<DirectWindow>> {
    let recent = rt.objects.recent.borrow();
    let recent = recent.as_ref().filter(|recent| recent.win == win)?;
    Some(Rc::clone(&recent.direct))
}

/// Takes and records the lock of a member's part, on the fast path.
///
/// Returns false, and changes nothing, unless the window is the cached one, this is the only lock,
/// and no wait and no other check is necessary.
#[inline(always)]
pub fn lock(rt: &Runtime, win: VirtWin, rank: c_int, arguments: LockArguments) -> bool {
    change(rt, win, |recent, epochs| {
        let is_taken = !epochs.is_fenced
            && epochs.locks.has_room_for_first()
            && epochs.may_lock(rank)
            && arguments
                .kind()
                .is_some_and(|kind| recent.direct.take_free(rank, kind));
        if is_taken {
            epochs.locks.push_first(rank, arguments);
            recent.set_locked(rank, true);
        }
        is_taken
    })
}

/// Releases the only lock, on the fast path.
///
/// Returns false, and changes nothing, unless the window is the cached one and the library is not
/// needed.
#[inline(always)]
pub fn unlock(rt: &Runtime, win: VirtWin, rank: c_int) -> bool {
    change(rt, win, |recent, epochs| {
        let direct = &recent.direct;
        let needs_no_library = || {
            direct.has_locks()
                && !epochs.is_fenced
                && epochs.targets.is_none()
                && direct.skip_progress()
                && !direct.library_epochs().ranks.contains(&rank)
        };
        let only = epochs.locks.only(rank).and_then(LockArguments::kind);
        let Some(kind) = only.filter(|_| needs_no_library()) else {
            return false;
        };
        epochs.locks.clear();
        direct.release(rank, kind);
        recent.set_locked(rank, false);
        true
    })
}

/// Changes the epochs of `win`, if it is the window of the cached part.
///
/// Returns the result of `change`; false for another window.
#[inline(always)]
fn change(
    rt: &Runtime,
    win: VirtWin,
    change: impl FnOnce(&mut RecentPart, &mut Epochs) -> bool,
) -> bool {
    let (Some(mut recent), Some(mut objects)) = (
        rt.objects.recent.try_borrow_mut(),
        rt.objects.all.try_borrow_mut(),
    ) else {
        return false;
    };
    let Some(recent) = recent.as_mut().filter(|recent| recent.win == win) else {
        return false;
    };
    let window =
        created_index(HandleKind::Win, win.0).and_then(|index| objects.windows.get_mut(index));
    let Some(Window { epochs, .. }) = window else {
        return false;
    };
    change(recent, epochs)
}

/// Updates the cached part after epochs of a window have been opened or closed.
fn refresh(rt: &Runtime, win: VirtWin, epochs: &Epochs) {
    if let Some(recent) = rt
        .objects
        .recent
        .borrow_mut()
        .as_mut()
        .filter(|recent| recent.win == win)
    {
        recent.update(epochs);
    }
}

/// Returns the window of the cached part with the result of [`cached_memory`].
#[inline]
pub fn cached_window_and_memory(
    rt: &Runtime,
    win: VirtWin,
    (rank, disp): (c_int, isize),
    elements: (c_int, VirtDatatype),
) -> Option<(Rc<DirectWindow>, u64, u64)> {
    let (memory, bytes) = cached_memory(rt, win, (rank, disp), elements)?;
    let direct = Rc::clone(&rt.objects.recent.borrow().as_ref()?.direct);
    Some((direct, memory, bytes))
}

/// Adds a number to the target's number, which is first copied to `before`.
///
/// Returns false, and changes nothing, if the target is not the cached part, or if the datatype is
/// not the cached one.
///
/// # Safety
/// `number` must point to a number of this datatype in the program, and `before`, if given, to
/// memory for a number of this datatype.
#[inline(always)]
pub unsafe fn add(
    rt: &Runtime,
    win: VirtWin,
    (rank, disp): (c_int, isize),
    datatype: VirtDatatype,
    number: *const c_void,
    before: Option<*mut c_void>,
) -> bool {
    let recent = rt.objects.recent.borrow();
    let Some(recent) = recent
        .as_ref()
        .filter(|recent| recent.matches(win, rank) && recent.datatype == datatype)
    else {
        return false;
    };
    let (Some(number_type), Some((address, _))) = (recent.number, recent.memory(disp, 1)) else {
        return false;
    };
    let Some(_locked) = recent.direct.lock(rank as usize) else {
        return false;
    };
    // SAFETY: the caller passes valid numbers; the target's address is in the window's memory.
    unsafe { number_type.add(number, address as *mut c_void, before) };
    true
}

/// Returns the work that a flush of `rank`, or of all ranks, requires.
#[inline]
pub fn flush(rt: &Runtime, win: VirtWin, rank: Option<c_int>) -> FlushWork {
    match (&*rt.objects.recent.borrow(), rank) {
        (Some(recent), Some(rank)) if recent.matches(win, rank) && recent.is_passive => {
            recent.direct.flush()
        }
        _ => direct_windows::flush(rt, win, rank),
    }
}

/// Caches a part that was accessed, for elements of `element` bytes without gaps.
pub fn cache_part(rt: &Runtime, win: VirtWin, rank: c_int, datatype: VirtDatatype, element: u64) {
    let part = |window: &Window| {
        let (memory, segment) = window.region.segment(usize::try_from(rank).ok()?)?;
        let (size, unit) = (
            u64::try_from(segment.size),
            u64::try_from(segment.disp_unit),
        );
        Some((
            memory,
            size.ok()?,
            unit.ok()?,
            window.epochs.is_passive(Some(rank)),
        ))
    };
    let part = get(rt, win).and_then(|window| part(&window));
    if let Some((memory, size, unit, is_passive)) = part
        && let Ok(Some(direct)) = direct_windows::direct(rt, win)
    {
        rt.objects.recent.set(Some(RecentPart {
            win,
            rank,
            datatype,
            element,
            number: number_of(rt, datatype),
            memory,
            size,
            unit,
            is_open: true,
            is_passive,
            direct,
        }));
    }
}

/// Opens or closes epochs of a window.
pub fn change_epochs(rt: &Runtime, win: VirtWin, change: impl FnOnce(&mut Epochs)) {
    let Some(index) = index(rt, win) else { return };
    if let Some(window) = rt.objects.all.borrow_mut().windows.get_mut(index) {
        change(&mut window.epochs);
        refresh(rt, win, &window.epochs);
    }
}
