//! The part of a window that was reached last: a loop of operations asks for the same again and again.
//!
//! It holds until any object changes ([`super::objects_mut`]), with which epochs begin and end, or a recovery begins.
#![allow(unsafe_code)]

use super::direct::{self, Direct};
use super::number::Number;
use super::{Window, get};
use crate::handles::{VirtDatatype, VirtWin};
use crate::objects::Runtime;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// A member's memory that this process may load and store in.
#[derive(Debug)]
pub struct Recent {
    win: VirtWin,
    rank: c_int,
    /// Predefined, without gaps.
    datatype: VirtDatatype,
    /// Bytes of one of those.
    element: u64,
    number: Option<Number>,
    memory: u64,
    size: u64,
    unit: u64,
    /// A lock is held.
    is_passive: bool,
    direct: Rc<Direct>,
}

impl Recent {
    fn is_of(&self, win: VirtWin, rank: c_int) -> bool {
        self.win == win && self.rank == rank
    }

    fn place(&self, disp: isize, count: c_int) -> Option<(u64, u64)> {
        let bytes = self.element * u64::try_from(count).ok()?;
        let begin = self.unit.checked_mul(u64::try_from(disp).ok()?)?;
        (begin.checked_add(bytes)? <= self.size).then_some((self.memory + begin, bytes))
    }
}

/// The address and bytes of `count` elements, if that part was reached last with this datatype.
#[inline]
pub fn place(
    rt: &Runtime,
    win: VirtWin,
    (rank, disp): (c_int, isize),
    (count, datatype): (c_int, VirtDatatype),
) -> Option<(u64, u64)> {
    let recent = rt.recent.borrow();
    let recent = recent.as_ref()?;
    let is_it = recent.is_of(win, rank) && recent.datatype == datatype;
    is_it.then(|| recent.place(disp, count)).flatten()
}

/// How its window is reached, and [`place`].
#[inline]
pub fn direct_place(
    rt: &Runtime,
    win: VirtWin,
    (rank, disp): (c_int, isize),
    elements: (c_int, VirtDatatype),
) -> Option<(Rc<Direct>, u64, u64)> {
    let (memory, bytes) = place(rt, win, (rank, disp), elements)?;
    let direct = Rc::clone(&rt.recent.borrow().as_ref()?.direct);
    Some((direct, memory, bytes))
}

/// Adds a number to one in that part, which is copied to `before` first. Nothing has been done if it is another part or datatype.
///
/// # Safety
/// The program's numbers of this datatype; no place, or one for such a number.
#[inline]
pub unsafe fn add(
    rt: &Runtime,
    win: VirtWin,
    (rank, disp): (c_int, isize),
    datatype: VirtDatatype,
    number: *const c_void,
    before: Option<*mut c_void>,
) -> bool {
    let recent = rt.recent.borrow();
    let Some(recent) = recent
        .as_ref()
        .filter(|it| it.is_of(win, rank) && it.datatype == datatype)
    else {
        return false;
    };
    let (Some(kind), Some((place, _))) = (recent.number, recent.place(disp, 1)) else {
        return false;
    };
    let Some(_locked) = recent.direct.lock(rank as usize) else {
        return false;
    };
    // SAFETY: the caller's promise; memory of the window, inside of it.
    unsafe { kind.add(number, place as *mut c_void, before) };
    true
}

/// Whether a flush has nothing to wait for: of a rank, or of all.
#[inline]
pub fn is_flushed(rt: &Runtime, win: VirtWin, rank: Option<c_int>) -> bool {
    if let (Some(recent), Some(rank)) = (&*rt.recent.borrow(), rank)
        && recent.is_of(win, rank)
    {
        return recent.is_passive && recent.direct.is_flushed();
    }
    direct::is_flushed(rt, win, rank)
}

/// This part was reached, for elements of so many bytes, which lie there without gaps.
pub fn remember(rt: &Runtime, win: VirtWin, rank: c_int, datatype: VirtDatatype, element: u64) {
    let part = |window: &Window| {
        let (memory, segment) = window.region.segment(usize::try_from(rank).ok()?)?;
        let (size, unit) = (u64::try_from(segment.size), u64::try_from(segment.disp_unit));
        Some((memory, size.ok()?, unit.ok()?, window.epochs.are_passive(Some(rank))))
    };
    let part = get(rt, win).and_then(|window| part(&window));
    if let Some((memory, size, unit, is_passive)) = part
        && let Ok(Some(direct)) = direct::direct(rt, win)
    {
        rt.recent.set(Some(Recent {
            win,
            rank,
            datatype,
            element,
            number: Number::of(rt, datatype),
            memory,
            size,
            unit,
            is_passive,
            direct,
        }));
    }
}

/// Something has changed.
#[inline]
pub fn forget(rt: &Runtime) {
    if rt.recent.borrow().is_some() {
        rt.recent.set(None);
    }
}
