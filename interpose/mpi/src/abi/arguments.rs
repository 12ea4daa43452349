//! Arguments at an edge: conversion for the callee, and of results for the caller.
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::foreign_abi::{Domain, HANDLE, Pointer, Value};
use crate::real_types::{HandleKind, Status};
use std::ffi::c_int;
use std::marker::PhantomData;

/// Direction in which the values of an argument are passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    In,
    Out,
    InOut,
}

/// Converts a number of elements of any integer type; zero if negative.
pub(super) fn number(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(0)
}

/// Returns the sum of an array of the caller.
///
/// # Safety
/// `array` must point to `length` integers, or be null.
pub(super) unsafe fn sum_of(array: *const u8, length: usize) -> usize {
    if array.is_null() {
        return 0;
    }
    // SAFETY: by the caller's contract.
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

/// Converts an integer for the callee.
///
/// Ranks and tags that are not constants are at least zero.
#[inline]
pub fn value<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match domain {
        Domain::Rank | Domain::Tag if value >= 0 => value,
        _ => forth::<E>(domain, value),
    }
}

/// Converts the displacement of a file view for the callee; constants are negative.
#[inline]
pub(super) fn displacement<E: Edge>(bytes: i64) -> i64 {
    match c_int::try_from(bytes) {
        Ok(constant) if constant < 0 => value::<E>(Domain::Displacement, constant).into(),
        _ => bytes,
    }
}

/// Converts a pointer for the callee, since it may be a constant.
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

/// Memory for the callee's elements: in place for a few, else on the heap.
struct Room<T, const FEW: usize> {
    few: [T; FEW],
    many: Vec<T>,
    /// True if the callee uses the elements after its return; then they are never freed.
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

/// Handles that an argument points to.
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
    // SAFETY: by the caller's contract.
    unsafe {
        match width {
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

unsafe fn write(at: *mut u8, width: usize, handle: u64) {
    // SAFETY: by the caller's contract.
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

    /// Converts handles of the caller.
    ///
    /// # Safety
    /// `caller` must point to `length` handles, or memory for them, or be null.
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
        // If the runtime is the callee, handles that it only writes stay empty. For the library
        // they get the caller's values, since that edge does not convert handles.
        if way != Way::Out || !E::INWARD {
            for index in 0..length {
                // SAFETY: by the caller's contract; the memory is large enough for either width.
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

    /// Keeps the memory, since the callee may use it after its return.
    pub fn kept(mut self) -> Handles<E> {
        self.room.keep();
        self
    }

    /// Returns the address of the handles for the callee.
    pub fn place(&mut self) -> *mut u8 {
        if self.caller.is_null() {
            self.caller
        } else {
            self.room.place().cast()
        }
    }

    /// Converts the handles for the caller after the call.
    ///
    /// # Safety
    /// As for [`Handles::new`].
    pub unsafe fn give_back(&mut self, is_success: bool) {
        if self.way == Way::Out && !is_success && !E::INWARD {
            return;
        }
        // A failing call may write null handles, and a call that finds no message writes none. The
        // memory of a handle that was not written is zero, which is not a handle.
        let may_be_unwritten = self.way == Way::Out && E::INWARD;
        let (from, to) = Self::widths(self.kind);
        let room = self.room.place().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: by the caller's contract.
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

/// Integers that an argument points to.
pub struct Integers<E: Edge> {
    domain: Domain,
    caller: *mut u8,
    length: usize,
    room: Room<c_int, 16>,
    edge: PhantomData<E>,
}

impl<E: Edge> Integers<E> {
    /// Converts integers of the caller.
    ///
    /// # Safety
    /// `caller` must point to `length` integers, or memory for them, or be null.
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
            // SAFETY: by the caller's contract. Integers that the callee does not write get their
            // present values back.
            unsafe {
                room.add(index).write(forth::<E>(
                    domain,
                    caller.cast::<c_int>().add(index).read_unaligned(),
                ))
            };
        }
        integers
    }

    /// Keeps the memory, since the callee may use it after its return.
    pub fn kept(mut self) -> Integers<E> {
        self.room.keep();
        self
    }

    /// Returns the address of the integers for the callee.
    pub fn place(&mut self) -> *mut u8 {
        if self.caller.is_null() {
            self.caller
        } else {
            self.room.place().cast()
        }
    }

    /// Converts the integers for the caller after the call.
    ///
    /// # Safety
    /// As for [`Integers::new`].
    pub unsafe fn give_back(&mut self, is_success: bool) {
        let room = self.room.place();
        for index in (0..self.length).filter(|_| is_success) {
            // SAFETY: by the caller's contract.
            unsafe {
                self.caller
                    .cast::<c_int>()
                    .add(index)
                    .write_unaligned(back::<E>(self.domain, room.add(index).read()))
            };
        }
    }
}

/// Statuses that an argument points to, or a constant for ignored statuses.
pub struct Statuses<E: Edge> {
    caller: *mut u8,
    /// Pointer to pass instead of statuses.
    constant: Option<*mut u8>,
    length: usize,
    /// Statuses of 32 bytes, the largest of all ABIs.
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
        // SAFETY: by the caller's contract.
        unsafe {
            if is_foreign {
                E::abi().read_status(at)
            } else {
                at.cast::<Status>().read_unaligned()
            }
        }
    }

    unsafe fn write(is_foreign: bool, at: *mut u8, status: &Status) {
        // SAFETY: by the caller's contract.
        unsafe {
            if is_foreign {
                E::abi().write_status(at, status)
            } else {
                at.cast::<Status>().write_unaligned(*status)
            }
        }
    }

    /// Converts statuses of the caller.
    ///
    /// # Safety
    /// `caller` must point to `length` statuses, or memory for them, or be the constant.
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
            // SAFETY: by the caller's contract; the memory is large enough for either ABI. Members
            // that the callee does not write, above all the error, get their present values back.
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

    /// Returns the address of the statuses for the callee.
    pub fn place(&mut self) -> *mut u8 {
        match self.constant {
            Some(constant) => constant,
            None => self.room.place().cast(),
        }
    }

    /// Converts the statuses for the caller after the call.
    ///
    /// # Safety
    /// As for [`Statuses::new`].
    pub unsafe fn give_back(&mut self, _: bool) {
        let (from, to) = Self::sizes();
        let room = self.room.place().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: by the caller's contract.
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
