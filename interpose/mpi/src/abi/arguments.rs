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
use std::mem::{MaybeUninit, offset_of};

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

/// Memory for the callee's elements: in this structure for up to `INLINE` elements, else on the heap.
struct CalleeMemory<T, const INLINE: usize> {
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
    fn new(length: usize) -> CalleeMemory<T, INLINE> {
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
    fn as_mut_ptr(&mut self) -> *mut T {
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
    /// Handles as they were passed to the callee that may change them, so that only changed handles
    /// are converted back.
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

    /// Returns the argument, without converted handles yet.
    ///
    /// `caller` points to `length` handles, or memory for them, or is null.
    #[inline(always)]
    pub fn new(kind: HandleKind, caller: *mut u8, length: usize, direction: Direction) -> Self {
        let length = if caller.is_null() { 0 } else { length };
        let is_compared = E::INWARD && direction == Direction::InOut;
        Handles {
            kind,
            caller,
            length,
            direction,
            memory: CalleeMemory::new(length),
            passed: CalleeMemory::new(if is_compared { length } else { 0 }),
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
        let is_compared = E::INWARD && self.direction == Direction::InOut;
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
        let is_compared = self.direction == Direction::InOut && E::INWARD;
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
    pub fn new(domain: Domain, caller: *mut u8, length: usize, _: Direction) -> Self {
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

    /// Keeps the converted integers, since the callee may use them after its return.
    pub fn keep(&mut self) {
        self.memory.keep(self.length);
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

/// Source or error of a status that the callee has not written; no library has such a value.
const UNWRITTEN: c_int = c_int::MIN;

/// Statuses that an argument points to, or the constant for ignored statuses.
///
/// At most `INLINE` statuses need no memory on the heap.
pub struct Statuses<E: Edge, const INLINE: usize> {
    caller: *mut u8,
    /// Pointer that is passed instead of statuses.
    constant: Option<*mut u8>,
    length: usize,
    direction: Direction,
    /// Statuses of 32 bytes, the largest of all ABIs.
    memory: CalleeMemory<[u64; 4], INLINE>,
    edge: PhantomData<E>,
}

impl<E: Edge, const INLINE: usize> Statuses<E, INLINE> {
    /// Returns the sizes in bytes of the caller's and of the callee's statuses.
    fn sizes() -> (usize, usize) {
        let foreign = E::abi().status.size;
        if E::INWARD {
            (foreign, size_of::<Status>())
        } else {
            (size_of::<Status>(), foreign)
        }
    }

    #[inline]
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

    #[inline]
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

    /// Returns the offsets of source and error in a status of the callee.
    #[inline]
    fn offsets() -> [usize; 2] {
        let layout = &E::abi().status;
        match E::INWARD {
            true => [offset_of!(Status, source), offset_of!(Status, error)],
            false => [layout.source, layout.error],
        }
    }

    /// Prepares a status that the callee may write.
    #[inline]
    unsafe fn mark_unwritten(address: *mut u8) {
        // SAFETY: the caller passes the address of memory for a status of the callee.
        unsafe {
            address.cast::<[u64; 4]>().write_unaligned([0; 4]);
            for offset in Self::offsets() {
                address
                    .add(offset)
                    .cast::<c_int>()
                    .write_unaligned(UNWRITTEN);
            }
        }
    }

    /// Returns source and error of a status of the callee, which are not converted.
    #[inline]
    unsafe fn raw_source_and_error(address: *const u8) -> [c_int; 2] {
        // SAFETY: the caller passes the address of a status of the callee.
        Self::offsets()
            .map(|offset| unsafe { address.add(offset).cast::<c_int>().read_unaligned() })
    }

    /// Returns the argument, without converted statuses yet.
    ///
    /// `caller` points to `length` statuses, or memory for them, or is the constant.
    #[inline(always)]
    pub fn new(kind: Pointer, caller: *mut u8, length: usize, direction: Direction) -> Self {
        let converted = pointer::<E>(kind, caller);
        let is_constant = caller.is_null() || converted != caller;
        let length = if is_constant { 0 } else { length };
        Statuses {
            caller,
            constant: is_constant.then_some(converted),
            length,
            direction,
            memory: CalleeMemory::new(length),
            edge: PhantomData,
        }
    }

    /// Converts the statuses of the caller.
    ///
    /// # Safety
    /// The caller's pointer must be as described at [`Statuses::new`].
    #[inline]
    pub unsafe fn convert_arguments(&mut self) {
        let (from, to) = Self::sizes();
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that its pointer, unless the constant, points to
            // `length` statuses; the memory is large enough for either ABI.
            unsafe {
                let address = memory.add(index * to);
                if self.direction == Direction::Out {
                    Self::mark_unwritten(address);
                } else {
                    let status = Self::read(E::INWARD, self.caller.add(index * from));
                    Self::write(!E::INWARD, address, &status);
                }
            }
        }
    }

    /// Returns the address of the statuses for the callee.
    #[inline]
    pub fn callee_pointer(&mut self) -> *mut u8 {
        match self.constant {
            Some(constant) => constant,
            None => self.memory.as_mut_ptr().cast(),
        }
    }

    /// Converts the statuses for the caller after the call.
    ///
    /// Members that the callee has not written keep the caller's values.
    ///
    /// # Safety
    /// The requirements of [`Statuses::new`] apply.
    #[inline]
    pub unsafe fn convert_results(&mut self, _: bool) {
        let (from, to) = Self::sizes();
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that `self.caller` points to `length` statuses.
            unsafe {
                let (address, results) = (self.caller.add(index * from), memory.add(index * to));
                let [source, error] = Self::raw_source_and_error(results);
                if self.direction == Direction::Out && [source, error] == [UNWRITTEN; 2] {
                    continue;
                }
                let previous = Self::read(E::INWARD, address);
                let mut status = match source {
                    UNWRITTEN => previous,
                    _ => Self::read(!E::INWARD, results),
                };
                // An error that the callee has not written is the caller's code, which needs no
                // conversion.
                status.error = match error {
                    UNWRITTEN => previous.error,
                    _ if error == previous.error && self.direction != Direction::Out => error,
                    _ => E::error_for_caller(error),
                };
                Self::write(E::INWARD, address, &status);
            }
        }
    }
}
