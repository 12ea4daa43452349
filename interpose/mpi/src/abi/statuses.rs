//! Arguments that are statuses (MPI 4.1, 3.2.5).
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::arguments::{CalleeMemory, Direction, pointer};
use super::foreign_abi::Pointer;
use crate::real_types::Status;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::offset_of;

/// Source or error of a status that the callee has not written.
///
/// No library has such a value.
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
