//! Arguments at an edge: conversion for the callee, and conversion of results for the caller.
//!
//! Arrays are converted into separate memory ([`CalleeMemory`]), whose address the callee
//! receives. After the call, the elements are converted back into the caller's array.
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::foreign_abi::{ConstantValue, Domain, HANDLE, Pointer};
use crate::real_types::{HandleKind, Status};
use std::ffi::c_int;
use std::marker::PhantomData;

/// Direction in which the values of an argument are passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
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
    // SAFETY: the caller guarantees that `array`, which is not null, points to `length` integers.
    let element = |index: usize| unsafe { array.cast::<c_int>().add(index).read_unaligned() };
    (0..length).map(|index| number(element(index))).sum()
}

fn to_callee<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match (domain, E::INWARD) {
        (Domain::ErrorCode, _) => E::error_for_callee(value),
        (_, true) => E::abi().canonical(domain, value),
        (_, false) => E::abi().foreign(domain, value),
    }
}

pub(super) fn to_caller<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match (domain, E::INWARD) {
        (Domain::ErrorCode, _) => E::error_for_caller(value),
        (_, true) => E::abi().foreign(domain, value),
        (_, false) => E::abi().canonical(domain, value),
    }
}

/// Converts an integer for the callee.
///
/// Ranks and tags of zero or more are no constants, and are therefore not converted.
#[inline]
pub fn value<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match domain {
        Domain::Rank | Domain::Tag if value >= 0 => value,
        _ => to_callee::<E>(domain, value),
    }
}

/// Converts the displacement of a file view for the callee; only negative values are constants.
#[inline]
pub(super) fn displacement<E: Edge>(bytes: i64) -> i64 {
    match c_int::try_from(bytes) {
        Ok(constant) if constant < 0 => value::<E>(Domain::Displacement, constant).into(),
        _ => bytes,
    }
}

/// Converts a pointer for the callee if it is a constant, such as `MPI_IN_PLACE`.
#[inline]
pub fn pointer<E: Edge>(kind: Pointer, pointer: *mut u8) -> *mut u8 {
    for (canonical, foreign) in E::abi().pointers[kind as usize] {
        let foreign = match foreign {
            ConstantValue::Constant(value) => *value,
            ConstantValue::Variable(name) => E::variable(name),
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

/// Memory for the callee's elements.
///
/// Up to `INLINE` elements are in this structure, more on the heap.
struct CalleeMemory<T, const INLINE: usize> {
    inline: [T; INLINE],
    on_heap: Vec<T>,
    /// True if the elements are never freed, because the callee may use them later.
    is_kept: bool,
}

impl<T, const INLINE: usize> Drop for CalleeMemory<T, INLINE> {
    fn drop(&mut self) {
        if self.is_kept {
            std::mem::take(&mut self.on_heap).leak();
        }
    }
}

impl<T: Copy, const INLINE: usize> CalleeMemory<T, INLINE> {
    fn new(empty: T, length: usize) -> CalleeMemory<T, INLINE> {
        CalleeMemory {
            inline: [empty; INLINE],
            on_heap: if length > INLINE {
                vec![empty; length]
            } else {
                Vec::new()
            },
            is_kept: false,
        }
    }

    /// Moves the elements to the heap, where they are never freed.
    fn keep(&mut self) {
        if self.on_heap.is_empty() {
            self.on_heap = self.inline.to_vec();
        }
        self.is_kept = true;
    }

    /// Returns the address of the elements.
    ///
    /// The address is valid until this value is moved or kept.
    fn as_mut_ptr(&mut self) -> *mut T {
        if self.on_heap.is_empty() {
            self.inline.as_mut_ptr()
        } else {
            self.on_heap.as_mut_ptr()
        }
    }
}

/// Handles that an argument points to.
pub struct Handles<E: Edge> {
    kind: HandleKind,
    caller: *mut u8,
    length: usize,
    direction: Direction,
    memory: CalleeMemory<u64, 8>,
    edge: PhantomData<E>,
}

/// Reads a handle of `width` bytes.
pub(super) unsafe fn read(address: *const u8, width: usize) -> u64 {
    // SAFETY: every caller passes the address of a handle of this width.
    unsafe {
        match width {
            4 => u64::from(address.cast::<u32>().read_unaligned()),
            _ => address.cast::<u64>().read_unaligned(),
        }
    }
}

/// Writes a handle of `width` bytes.
unsafe fn write(address: *mut u8, width: usize, handle: u64) {
    // SAFETY: every caller passes an address with space for a handle of this width.
    unsafe {
        match width {
            4 => address.cast::<u32>().write_unaligned(handle as u32),
            _ => address.cast::<u64>().write_unaligned(handle),
        }
    }
}

impl<E: Edge> Handles<E> {
    /// Returns the sizes in bytes of the caller's and of the callee's handles.
    fn widths(kind: HandleKind) -> (usize, usize) {
        let foreign = E::abi().width(kind);
        if E::INWARD {
            (foreign, HANDLE)
        } else {
            (HANDLE, foreign)
        }
    }

    /// Converts handles of the caller.
    ///
    /// # Safety
    /// `caller` must point to `length` handles, or memory for them, or be null.
    pub unsafe fn new(
        kind: HandleKind,
        caller: *mut u8,
        length: usize,
        direction: Direction,
    ) -> Handles<E> {
        let length = if caller.is_null() { 0 } else { length };
        let mut handles = Handles {
            kind,
            caller,
            length,
            direction,
            memory: CalleeMemory::new(0, length),
            edge: PhantomData,
        };
        let (from, to) = Self::widths(kind);
        let memory = handles.memory.as_mut_ptr().cast::<u8>();
        // If the runtime is the callee, the memory of handles that the callee only writes stays
        // zero, since the caller's values may be no handles and could not be converted. If the
        // library is the callee, handles are not converted, and this memory receives the caller's
        // values.
        if direction != Direction::Out || !E::INWARD {
            for index in 0..length {
                // SAFETY: the caller guarantees that `caller`, unless null, points to `length`
                // handles; the memory is large enough for either width.
                unsafe {
                    write(
                        memory.add(index * to),
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
        self.memory.keep();
        self
    }

    /// Returns the address of the handles for the callee.
    pub fn callee_pointer(&mut self) -> *mut u8 {
        if self.caller.is_null() {
            self.caller
        } else {
            self.memory.as_mut_ptr().cast()
        }
    }

    /// Converts the handles for the caller after the call.
    ///
    /// # Safety
    /// The requirements of [`Handles::new`] apply.
    pub unsafe fn convert_results(&mut self, is_success: bool) {
        if self.direction == Direction::Out && !is_success && !E::INWARD {
            return;
        }
        // A failing handler of the runtime may write null handles, which must be converted. A
        // handler that finds no message writes no handle: the memory is then still zero, which is
        // not a handle, and the caller's value stays.
        let may_be_unwritten = self.direction == Direction::Out && E::INWARD;
        let (from, to) = Self::widths(self.kind);
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that `self.caller` points to `length` handles.
            unsafe {
                let handle = read(memory.add(index * to), to);
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
    memory: CalleeMemory<c_int, 16>,
    edge: PhantomData<E>,
}

impl<E: Edge> Integers<E> {
    /// Converts integers of the caller.
    ///
    /// # Safety
    /// `caller` must point to `length` integers, or memory for them, or be null.
    pub unsafe fn new(domain: Domain, caller: *mut u8, length: usize, _: Direction) -> Integers<E> {
        let length = if caller.is_null() { 0 } else { length };
        let mut integers = Integers {
            domain,
            caller,
            length,
            memory: CalleeMemory::new(0, length),
            edge: PhantomData,
        };
        let memory = integers.memory.as_mut_ptr();
        for index in 0..length {
            // SAFETY: the caller guarantees that `caller`, unless null, points to `length`
            // integers. Integers that the callee does not write keep their present values.
            unsafe {
                memory.add(index).write(to_callee::<E>(
                    domain,
                    caller.cast::<c_int>().add(index).read_unaligned(),
                ))
            };
        }
        integers
    }

    /// Keeps the memory, since the callee may use it after its return.
    pub fn kept(mut self) -> Integers<E> {
        self.memory.keep();
        self
    }

    /// Returns the address of the integers for the callee.
    pub fn callee_pointer(&mut self) -> *mut u8 {
        if self.caller.is_null() {
            self.caller
        } else {
            self.memory.as_mut_ptr().cast()
        }
    }

    /// Converts the integers for the caller after the call.
    ///
    /// # Safety
    /// The requirements of [`Integers::new`] apply.
    pub unsafe fn convert_results(&mut self, is_success: bool) {
        let memory = self.memory.as_mut_ptr();
        for index in (0..self.length).filter(|_| is_success) {
            // SAFETY: the caller guarantees that `self.caller` points to `length` integers.
            unsafe {
                self.caller
                    .cast::<c_int>()
                    .add(index)
                    .write_unaligned(to_caller::<E>(self.domain, memory.add(index).read()))
            };
        }
    }
}

/// Statuses that an argument points to, or the constant for ignored statuses.
pub struct Statuses<E: Edge> {
    caller: *mut u8,
    /// Pointer that is passed instead of statuses.
    constant: Option<*mut u8>,
    length: usize,
    /// Statuses of 32 bytes, the largest of all ABIs.
    memory: CalleeMemory<[u64; 4], 4>,
    edge: PhantomData<E>,
}

impl<E: Edge> Statuses<E> {
    /// Returns the sizes in bytes of the caller's and of the callee's statuses.
    fn sizes() -> (usize, usize) {
        let foreign = E::abi().status.size;
        if E::INWARD {
            (foreign, size_of::<Status>())
        } else {
            (size_of::<Status>(), foreign)
        }
    }

    unsafe fn read(is_foreign: bool, address: *const u8) -> Status {
        // SAFETY: every caller passes the address of a status of this ABI.
        unsafe {
            if is_foreign {
                E::abi().read_status(address)
            } else {
                address.cast::<Status>().read_unaligned()
            }
        }
    }

    unsafe fn write(is_foreign: bool, address: *mut u8, status: &Status) {
        // SAFETY: every caller passes an address with space for a status of this ABI.
        unsafe {
            if is_foreign {
                E::abi().write_status(address, status)
            } else {
                address.cast::<Status>().write_unaligned(*status)
            }
        }
    }

    /// Converts statuses of the caller.
    ///
    /// # Safety
    /// `caller` must point to `length` statuses, or memory for them, or be the constant.
    pub unsafe fn new(kind: Pointer, caller: *mut u8, length: usize, _: Direction) -> Statuses<E> {
        let converted = pointer::<E>(kind, caller);
        let is_constant = caller.is_null() || converted != caller;
        let length = if is_constant { 0 } else { length };
        let constant = is_constant.then_some(converted);
        let mut statuses = Statuses {
            caller,
            constant,
            length,
            memory: CalleeMemory::new([0; 4], length),
            edge: PhantomData,
        };
        let (from, to) = Self::sizes();
        let memory = statuses.memory.as_mut_ptr().cast::<u8>();
        for index in 0..length {
            // SAFETY: the caller guarantees that `caller`, unless the constant, points to `length`
            // statuses; the memory is large enough for either ABI. Members that the callee does
            // not write, above all the error, keep their present values.
            unsafe {
                Self::write(
                    !E::INWARD,
                    memory.add(index * to),
                    &Self::read(E::INWARD, caller.add(index * from)),
                )
            };
        }
        statuses
    }

    /// Returns the address of the statuses for the callee.
    pub fn callee_pointer(&mut self) -> *mut u8 {
        match self.constant {
            Some(constant) => constant,
            None => self.memory.as_mut_ptr().cast(),
        }
    }

    /// Converts the statuses for the caller after the call.
    ///
    /// # Safety
    /// The requirements of [`Statuses::new`] apply.
    pub unsafe fn convert_results(&mut self, _: bool) {
        let (from, to) = Self::sizes();
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that `self.caller` points to `length` statuses.
            unsafe {
                let address = self.caller.add(index * from);
                let (previous, mut status) = (
                    Self::read(E::INWARD, address),
                    Self::read(!E::INWARD, memory.add(index * to)),
                );
                // An error that the callee has not written is still the caller's code, which needs
                // no conversion.
                if status.error != previous.error {
                    status.error = E::error_for_caller(status.error);
                }
                Self::write(E::INWARD, address, &status);
            }
        }
    }
}
