//! Arguments at an edge: what the callee gets, and what the caller gets back.
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::foreign_abi::{Domain, HANDLE, Pointer, Value};
use crate::real_types::{HandleKind, Status};
use std::ffi::c_int;
use std::marker::PhantomData;

/// Which way the values of an argument go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    In,
    Out,
    InOut,
}

/// A number of elements, whatever integer type it has.
pub(super) fn number(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(0)
}

/// The sum of an array of the caller's.
///
/// # Safety
/// `array` must have `length` integers, or be null.
pub(super) unsafe fn sum_of(array: *const u8, length: usize) -> usize {
    if array.is_null() {
        return 0;
    }
    // SAFETY: as the caller promises.
    let element = |index: usize| unsafe { array.cast::<c_int>().add(index).read_unaligned() };
    (0..length).map(|index| number(element(index))).sum()
}

fn forth<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match (domain, E::INWARD) {
        (Domain::ErrorCode, _) => E::code(value),
        (_, true) => E::abi().canonical(domain, value),
        (_, false) => E::abi().foreign(domain, value),
    }
}

pub(super) fn back<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match (domain, E::INWARD) {
        (Domain::ErrorCode, _) => E::outcome(value),
        (_, true) => E::abi().foreign(domain, value),
        (_, false) => E::abi().canonical(domain, value),
    }
}

/// An integer for the callee. Ranks and tags that are no constants are at least 0.
#[inline]
pub fn value<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match domain {
        Domain::Rank | Domain::Tag if value >= 0 => value,
        _ => forth::<E>(domain, value),
    }
}

/// The displacement of a file's view for the callee: it may be a constant, which is negative.
#[inline]
pub(super) fn displacement<E: Edge>(bytes: i64) -> i64 {
    match c_int::try_from(bytes) {
        Ok(constant) if constant < 0 => value::<E>(Domain::Displacement, constant).into(),
        _ => bytes,
    }
}

/// A pointer for the callee: it may be a constant.
#[inline]
pub fn pointer<E: Edge>(kind: Pointer, pointer: *mut u8) -> *mut u8 {
    for (canonical, foreign) in E::abi().pointers[kind as usize] {
        let foreign = match foreign {
            Value::Constant(value) => *value,
            Value::Variable(name) => E::variable(name),
        };
        let (from, to) = if E::INWARD {
            (foreign, *canonical)
        } else {
            (*canonical, foreign)
        };
        if pointer as isize == from {
            return to as *mut u8;
        }
    }
    pointer
}

/// Elements for the callee: few in place, many on the heap.
struct Room<T, const FEW: usize> {
    few: [T; FEW],
    many: Vec<T>,
    /// The callee looks at them after its return: their memory is never freed.
    is_kept: bool,
}

impl<T, const FEW: usize> Drop for Room<T, FEW> {
    fn drop(&mut self) {
        if self.is_kept {
            std::mem::take(&mut self.many).leak();
        }
    }
}

impl<T: Copy, const FEW: usize> Room<T, FEW> {
    fn new(empty: T, length: usize) -> Room<T, FEW> {
        Room {
            few: [empty; FEW],
            many: if length > FEW {
                vec![empty; length]
            } else {
                Vec::new()
            },
            is_kept: false,
        }
    }

    fn keep(&mut self) {
        if self.many.is_empty() {
            self.many = self.few.to_vec();
        }
        self.is_kept = true;
    }

    fn place(&mut self) -> *mut T {
        if self.many.is_empty() {
            self.few.as_mut_ptr()
        } else {
            self.many.as_mut_ptr()
        }
    }
}

/// Handles behind a pointer.
pub struct Handles<E: Edge> {
    kind: HandleKind,
    caller: *mut u8,
    length: usize,
    way: Way,
    room: Room<u64, 8>,
    edge: PhantomData<E>,
}

/// Reads a handle of `width` bytes.
pub(super) unsafe fn read(at: *const u8, width: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

unsafe fn write(at: *mut u8, width: usize, handle: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            4 => at.cast::<u32>().write_unaligned(handle as u32),
            _ => at.cast::<u64>().write_unaligned(handle),
        }
    }
}

impl<E: Edge> Handles<E> {
    fn widths(kind: HandleKind) -> (usize, usize) {
        let theirs = E::abi().width(kind);
        if E::INWARD {
            (theirs, HANDLE)
        } else {
            (HANDLE, theirs)
        }
    }

    /// Those of the caller.
    ///
    /// # Safety
    /// `caller` must have `length` handles, or room for them, or be null.
    pub unsafe fn new(kind: HandleKind, caller: *mut u8, length: usize, way: Way) -> Handles<E> {
        let length = if caller.is_null() { 0 } else { length };
        let mut handles = Handles {
            kind,
            caller,
            length,
            way,
            room: Room::new(0, length),
            edge: PhantomData,
        };
        let (from, to) = Self::widths(kind);
        let room = handles.room.place().cast::<u8>();
        // What the callee only writes is left empty for it, unless it keeps its caller's
        // representation.
        if way != Way::Out || !E::INWARD {
            for index in 0..length {
                // SAFETY: as the caller promises; the room is long enough for either width.
                unsafe {
                    write(
                        room.add(index * to),
                        to,
                        E::handle(kind, read(caller.add(index * from), from)),
                    )
                };
            }
        }
        handles
    }

    /// The callee may look at them after its return.
    pub fn kept(mut self) -> Handles<E> {
        self.room.keep();
        self
    }

    /// Where the callee finds them.
    pub fn place(&mut self) -> *mut u8 {
        if self.caller.is_null() {
            self.caller
        } else {
            self.room.place().cast()
        }
    }

    /// After the call.
    ///
    /// # Safety
    /// As [`Handles::new`].
    pub unsafe fn give_back(&mut self, is_success: bool) {
        if self.way == Way::Out && !is_success && !E::INWARD {
            return;
        }
        // A call that fails may write null handles, and one that finds no message writes none. What
        // it has not written is no handle in the room, which was empty.
        let may_be_unwritten = self.way == Way::Out && E::INWARD;
        let (from, to) = Self::widths(self.kind);
        let room = self.room.place().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: as the caller promises.
            unsafe {
                let handle = read(room.add(index * to), to);
                if handle != 0 || !may_be_unwritten {
                    let handle = E::handle_back(self.kind, handle);
                    write(self.caller.add(index * from), from, handle);
                }
            }
        }
    }
}

/// Integers behind a pointer.
pub struct Integers<E: Edge> {
    domain: Domain,
    caller: *mut u8,
    length: usize,
    room: Room<c_int, 16>,
    edge: PhantomData<E>,
}

impl<E: Edge> Integers<E> {
    /// Those of the caller.
    ///
    /// # Safety
    /// `caller` must have `length` integers, or room for them, or be null.
    pub unsafe fn new(domain: Domain, caller: *mut u8, length: usize, _: Way) -> Integers<E> {
        let length = if caller.is_null() { 0 } else { length };
        let mut integers = Integers {
            domain,
            caller,
            length,
            room: Room::new(0, length),
            edge: PhantomData,
        };
        let room = integers.room.place();
        for index in 0..length {
            // SAFETY: as the caller promises. What the callee does not write comes back as it is
            // now.
            unsafe {
                room.add(index).write(forth::<E>(
                    domain,
                    caller.cast::<c_int>().add(index).read_unaligned(),
                ))
            };
        }
        integers
    }

    /// The callee may look at them after its return.
    pub fn kept(mut self) -> Integers<E> {
        self.room.keep();
        self
    }

    /// Where the callee finds them.
    pub fn place(&mut self) -> *mut u8 {
        if self.caller.is_null() {
            self.caller
        } else {
            self.room.place().cast()
        }
    }

    /// After the call.
    ///
    /// # Safety
    /// As [`Integers::new`].
    pub unsafe fn give_back(&mut self, is_success: bool) {
        let room = self.room.place();
        for index in (0..self.length).filter(|_| is_success) {
            // SAFETY: as the caller promises.
            unsafe {
                self.caller
                    .cast::<c_int>()
                    .add(index)
                    .write_unaligned(back::<E>(self.domain, room.add(index).read()))
            };
        }
    }
}

/// Statuses behind a pointer, which may be the constant that says they are not wanted.
pub struct Statuses<E: Edge> {
    caller: *mut u8,
    /// What is passed instead.
    constant: Option<*mut u8>,
    length: usize,
    /// Of 32 bytes, the longest of all.
    room: Room<[u64; 4], 4>,
    edge: PhantomData<E>,
}

impl<E: Edge> Statuses<E> {
    fn sizes() -> (usize, usize) {
        let theirs = E::abi().status.size;
        if E::INWARD {
            (theirs, size_of::<Status>())
        } else {
            (size_of::<Status>(), theirs)
        }
    }

    unsafe fn read(is_foreign: bool, at: *const u8) -> Status {
        // SAFETY: the caller's promise.
        unsafe {
            if is_foreign {
                E::abi().read_status(at)
            } else {
                at.cast::<Status>().read_unaligned()
            }
        }
    }

    unsafe fn write(is_foreign: bool, at: *mut u8, status: &Status) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_foreign {
                E::abi().write_status(at, status)
            } else {
                at.cast::<Status>().write_unaligned(*status)
            }
        }
    }

    /// Those of the caller.
    ///
    /// # Safety
    /// `caller` must have `length` statuses, or room for them, or be the constant.
    pub unsafe fn new(kind: Pointer, caller: *mut u8, length: usize, _: Way) -> Statuses<E> {
        let passed = pointer::<E>(kind, caller);
        let is_constant = caller.is_null() || passed != caller;
        let length = if is_constant { 0 } else { length };
        let constant = is_constant.then_some(passed);
        let mut statuses = Statuses {
            caller,
            constant,
            length,
            room: Room::new([0; 4], length),
            edge: PhantomData,
        };
        let (from, to) = Self::sizes();
        let room = statuses.room.place().cast::<u8>();
        for index in 0..length {
            // What the callee does not write, an error above all, comes back as it was.
            // SAFETY: as the caller promises; the room is long enough for either.
            unsafe {
                Self::write(
                    !E::INWARD,
                    room.add(index * to),
                    &Self::read(E::INWARD, caller.add(index * from)),
                )
            };
        }
        statuses
    }

    /// Where the callee finds them.
    pub fn place(&mut self) -> *mut u8 {
        match self.constant {
            Some(constant) => constant,
            None => self.room.place().cast(),
        }
    }

    /// After the call.
    ///
    /// # Safety
    /// As [`Statuses::new`].
    pub unsafe fn give_back(&mut self, _: bool) {
        let (from, to) = Self::sizes();
        let room = self.room.place().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: as the caller promises.
            unsafe {
                let at = self.caller.add(index * from);
                let (before, mut after) = (
                    Self::read(E::INWARD, at),
                    Self::read(!E::INWARD, room.add(index * to)),
                );
                if after.error != before.error {
                    after.error = E::outcome(after.error);
                }
                Self::write(E::INWARD, at, &after);
            }
        }
    }
}
