//! Virtual handles as the program holds them. Plain data.
#![allow(unsafe_code)]

use crate::generated::{DATA_COUNT, HandleKind};
use std::ffi::c_void;

include!("../generated/virt_types.rs");

pub const IN_PLACE: *const c_void = std::ptr::without_provenance(1);

const BASE: usize = 0x1e00_0000_0000;
const KIND_SHIFT: u32 = 32;
const INDEX_SHIFT: u32 = 4;
pub(super) const KINDS: usize = 16;
const SPAN: usize = KINDS << KIND_SHIFT;

/// Marks a data symbol of the user side that the runtime has written; the low 32 bits are an index.
pub(super) const TAG: u64 = 0x7553_7400_0000_0000;
const TAG_MASK: u64 = 0xffff_ff00_0000_0000;

/// The index of a created object of this kind; it need not exist.
#[inline]
pub fn created(kind: HandleKind, handle: *mut c_void) -> Option<u32> {
    let offset = (handle as usize).wrapping_sub(virtual_handle(kind, 0) as usize);
    // What is between two handles becomes greater than every index.
    let index = offset.rotate_right(INDEX_SHIFT);
    (index < 1 << (KIND_SHIFT - INDEX_SHIFT)).then_some(index as u32)
}

/// The handle of the created object number `index` of a kind.
#[inline]
pub fn virtual_handle(kind: HandleKind, index: u32) -> *mut c_void {
    (BASE + ((kind as usize) << KIND_SHIFT) + ((index as usize) << INDEX_SHIFT)) as *mut c_void
}

/// What a handle names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// The created object with this index.
    Created(u32),
    /// The predefined object whose data symbol has this index.
    Predefined(usize),
    /// Nothing that can be a handle.
    Nothing,
}

/// Tells what the handle value `handle` names; the kind is not checked.
#[inline]
pub fn named(handle: *mut c_void) -> Named {
    let offset = (handle as usize).wrapping_sub(BASE);
    if offset < SPAN {
        return Named::Created(((offset & 0xffff_ffff) >> INDEX_SHIFT) as u32);
    }
    if (handle as usize) < 4096 {
        return Named::Nothing;
    }
    // SAFETY: a program may only pass handles; those of predefined objects are addresses of data
    // symbols. A wild pointer faults here as it would in the real library.
    let tag = unsafe { handle.cast::<u64>().read_unaligned() };
    if tag & TAG_MASK == TAG && ((tag & !TAG_MASK) as usize) < DATA_COUNT {
        Named::Predefined((tag & !TAG_MASK) as usize)
    } else {
        Named::Nothing
    }
}

/// Index of the data symbol of this name.
pub fn symbol_index(name: &str) -> Option<usize> {
    crate::generated::DATA_SYMBOLS
        .iter()
        .position(|(symbol, _)| symbol.to_bytes() == name.as_bytes())
}
