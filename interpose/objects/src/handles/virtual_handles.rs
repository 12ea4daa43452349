//! Virtual handles, which the program sees. Plain data.
#![allow(unsafe_code)]

use crate::generated::{DATA_COUNT, HandleKind};
use std::ffi::c_void;

include!("../generated/virt_types.rs");

const BASE: usize = 0x1e00_0000_0000;
const KIND_SHIFT: u32 = 32;
const INDEX_SHIFT: u32 = 4;
pub(super) const KINDS: usize = 16;
const SPAN: usize = KINDS << KIND_SHIFT;

/// Upper bits of the value that the runtime writes into each data symbol.
///
/// The low 32 bits of the value are the index of the symbol.
pub(super) const TAG: u64 = 0x7553_7400_0000_0000;
const TAG_MASK: u64 = 0xffff_ff00_0000_0000;

/// Returns the index in a handle of a created object of this kind.
///
/// `None` for all other values. An object with this index need not exist.
#[inline]
pub fn created_index(kind: HandleKind, handle: *mut c_void) -> Option<u32> {
    let offset = (handle as usize).wrapping_sub(virtual_handle(kind, 0) as usize);
    // The rotation divides by the distance of two handles. A remainder becomes the upper bits, and
    // makes the result greater than every index.
    let index = offset.rotate_right(INDEX_SHIFT);
    (index < 1 << (KIND_SHIFT - INDEX_SHIFT)).then_some(index as u32)
}

/// Returns the handle of the created object number `index` of a kind.
#[inline]
pub fn virtual_handle(kind: HandleKind, index: u32) -> *mut c_void {
    (BASE + ((kind as usize) << KIND_SHIFT) + ((index as usize) << INDEX_SHIFT)) as *mut c_void
}

/// Object that a handle denotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DenotedObject {
    /// The created object with this index.
    Created(u32),
    /// The predefined object whose data symbol has this index.
    Predefined(usize),
    /// No object: the value is not a handle.
    Nothing,
}

/// Returns the object that the handle value `handle` denotes; the kind is not checked.
#[inline]
pub fn denoted_object(handle: *mut c_void) -> DenotedObject {
    let offset = (handle as usize).wrapping_sub(BASE);
    if offset < SPAN {
        return DenotedObject::Created(((offset & 0xffff_ffff) >> INDEX_SHIFT) as u32);
    }
    if (handle as usize) < 4096 {
        return DenotedObject::Nothing;
    }
    // SAFETY: a program may only pass handles; those of predefined objects are addresses of data
    // symbols. An invalid pointer faults here as it does in the real library.
    let tag = unsafe { handle.cast::<u64>().read_unaligned() };
    if tag & TAG_MASK == TAG && ((tag & !TAG_MASK) as usize) < DATA_COUNT {
        DenotedObject::Predefined((tag & !TAG_MASK) as usize)
    } else {
        DenotedObject::Nothing
    }
}

/// Returns the index of the data symbol `name`.
pub fn symbol_index(name: &str) -> Option<usize> {
    crate::generated::DATA_SYMBOLS
        .iter()
        .position(|(symbol, _)| symbol.to_bytes() == name.as_bytes())
}
