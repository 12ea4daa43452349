//! Arguments at an edge: conversion for the callee, and conversion of results for the caller.
//!
//! Arrays are converted into separate memory ([`CalleeMemory`]), whose address the callee
//! receives. After the call, the elements are converted back into the caller's array.
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::foreign_abi::{ConstantValue, Domain, HANDLE, Pointer};
use crate::real_types::HandleKind;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

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

/// Converts an integer for the callee.
#[inline]
pub fn value<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match (domain, E::INWARD) {
        (Domain::ErrorCode, _) => E::error_for_callee(value),
        (_, true) => E::abi().canonical(domain, value),
        (_, false) => E::abi().foreign(domain, value),
    }
}

#[inline]
pub(super) fn to_caller<E: Edge>(domain: Domain, value: c_int) -> c_int {
    match (domain, E::INWARD) {
        (Domain::ErrorCode, _) => E::error_for_caller(value),
        (_, true) => E::abi().foreign(domain, value),
        (_, false) => E::abi().canonical(domain, value),
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
pub(super) struct CalleeMemory<T, const INLINE: usize> {
    inline: [MaybeUninit<T>; INLINE],
    on_heap: Option<Box<[MaybeUninit<T>]>>,
    /// True if the elements are never freed, because the callee may use them later.
    is_kept: bool,
}

impl<T, const INLINE: usize> Drop for CalleeMemory<T, INLINE> {
    #[inline]
    fn drop(&mut self) {
        if self.is_kept {
            self.on_heap.take().map(Box::leak);
        }
    }
}

impl<T: Copy, const INLINE: usize> CalleeMemory<T, INLINE> {
    /// Returns memory for `length` elements, which are not initialised.
    #[inline]
    pub(super) fn new(length: usize) -> CalleeMemory<T, INLINE> {
        CalleeMemory {
            inline: [const { MaybeUninit::uninit() }; INLINE],
            on_heap: (length > INLINE).then(|| Box::new_uninit_slice(length)),
            is_kept: false,
        }
    }

    /// Moves the `length` elements to the heap, where they are never freed.
    fn keep(&mut self, length: usize) {
        if self.on_heap.is_none() {
            self.on_heap = Some(self.inline[..length].into());
        }
        self.is_kept = true;
    }

    /// Returns the address of the elements.
    ///
    /// The address is valid until this value is moved or kept.
    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut T {
        match &mut self.on_heap {
            None => self.inline.as_mut_ptr().cast(),
            Some(elements) => elements.as_mut_ptr().cast(),
        }
    }
}

/// Handles that an argument points to; at most `INLINE` need no memory on the heap.
pub struct Handles<E: Edge, const INLINE: usize> {
    kind: HandleKind,
    caller: *mut u8,
    length: usize,
    direction: Direction,
    memory: CalleeMemory<u64, INLINE>,
    /// Handles as they were passed to a callee that may change them.
    ///
    /// Only changed handles are converted back.
    passed: CalleeMemory<u64, INLINE>,
    edge: PhantomData<E>,
}

/// Reads a handle of `width` bytes.
#[inline]
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
#[inline]
unsafe fn write(address: *mut u8, width: usize, handle: u64) {
    // SAFETY: every caller passes an address with space for a handle of this width.
    unsafe {
        match width {
            4 => address.cast::<u32>().write_unaligned(handle as u32),
            _ => address.cast::<u64>().write_unaligned(handle),
        }
    }
}

impl<E: Edge, const INLINE: usize> Handles<E, INLINE> {
    /// Returns the sizes in bytes of the caller's and of the callee's handles.
    #[inline]
    fn widths(kind: HandleKind) -> (usize, usize) {
        let foreign = E::abi().width(kind);
        if E::INWARD {
            (foreign, HANDLE)
        } else {
            (HANDLE, foreign)
        }
    }

    /// True if handles are compared after the call with those that were passed.
    #[inline]
    fn is_compared(direction: Direction) -> bool {
        E::INWARD && direction == Direction::InOut
    }

    /// Returns the argument, without converted handles yet.
    ///
    /// `caller` points to `length` handles, or memory for them, or is null.
    #[inline(always)]
    pub fn new(kind: HandleKind, caller: *mut u8, length: usize, direction: Direction) -> Self {
        let length = if caller.is_null() { 0 } else { length };
        let compared = if Self::is_compared(direction) {
            length
        } else {
            0
        };
        Handles {
            kind,
            caller,
            length,
            direction,
            memory: CalleeMemory::new(length),
            passed: CalleeMemory::new(compared),
            edge: PhantomData,
        }
    }

    /// Converts the handles of the caller.
    ///
    /// # Safety
    /// The caller's pointer must be as described at [`Handles::new`].
    #[inline]
    pub unsafe fn convert_arguments(&mut self) {
        let (from, to) = Self::widths(self.kind);
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        let passed = self.passed.as_mut_ptr();
        let is_compared = Self::is_compared(self.direction);
        // If the runtime is the callee, the memory of handles that the callee only writes is zero,
        // since the caller's values may be no handles and could not be converted. If the library is
        // the callee, handles are not converted, and this memory receives the caller's values.
        let is_converted = self.direction != Direction::Out || !E::INWARD;
        for index in 0..self.length {
            // SAFETY: the caller guarantees that its pointer, unless null, points to `length`
            // handles; the memory is large enough for either width.
            unsafe {
                let handle = match is_converted {
                    true => E::handle(self.kind, read(self.caller.add(index * from), from)),
                    false => 0,
                };
                write(memory.add(index * to), to, handle);
                if is_compared {
                    passed.add(index).write(handle);
                }
            }
        }
    }

    /// Keeps the converted handles, since the callee may use them after its return.
    pub fn keep(&mut self) {
        self.memory.keep(self.length);
    }

    /// Returns the address of the handles for the callee.
    #[inline]
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
    #[inline]
    pub unsafe fn convert_results(&mut self, is_success: bool) {
        if self.direction == Direction::Out && !is_success && !E::INWARD {
            return;
        }
        // A failing handler of the runtime may write null handles, which must be converted. A
        // handler that finds no message writes no handle: the memory is then still zero, which is
        // not a handle, and the caller's value stays.
        let may_be_unwritten = self.direction == Direction::Out && E::INWARD;
        let is_compared = Self::is_compared(self.direction);
        let (from, to) = Self::widths(self.kind);
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        let passed = self.passed.as_mut_ptr();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that `self.caller` points to `length` handles.
            unsafe {
                let handle = read(memory.add(index * to), to);
                let is_unchanged = is_compared && handle == passed.add(index).read();
                if !is_unchanged && (handle != 0 || !may_be_unwritten) {
                    let handle = E::handle_back(self.kind, handle);
                    write(self.caller.add(index * from), from, handle);
                }
            }
        }
    }
}

/// Integers that an argument points to; at most `INLINE` need no memory on the heap.
pub struct Integers<E: Edge, const INLINE: usize> {
    domain: Domain,
    caller: *mut u8,
    length: usize,
    memory: CalleeMemory<c_int, INLINE>,
    edge: PhantomData<E>,
}

impl<E: Edge, const INLINE: usize> Integers<E, INLINE> {
    /// Returns the argument, without converted integers yet.
    ///
    /// `caller` points to `length` integers, or memory for them, or is null.
    #[inline(always)]
    pub fn new(domain: Domain, caller: *mut u8, length: usize) -> Self {
        let length = if caller.is_null() { 0 } else { length };
        Integers {
            domain,
            caller,
            length,
            memory: CalleeMemory::new(length),
            edge: PhantomData,
        }
    }

    /// Converts the integers of the caller.
    ///
    /// # Safety
    /// The caller's pointer must be as described at [`Integers::new`].
    #[inline]
    pub unsafe fn convert_arguments(&mut self) {
        let memory = self.memory.as_mut_ptr();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that its pointer, unless null, points to `length`
            // integers. Integers that the callee does not write keep their present values.
            unsafe {
                let integer = self.caller.cast::<c_int>().add(index).read_unaligned();
                memory.add(index).write(value::<E>(self.domain, integer));
            }
        }
    }

    /// Returns the address of the integers for the callee.
    #[inline]
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
    #[inline]
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
