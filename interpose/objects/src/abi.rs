//! Handles and callback values of a program with another ABI than Open MPI's.
//!
//! The handle of a predefined object is a number that the ABI defines. The handle of a created
//! object depends on the ABI's handle type. In an ABI with pointers as handles, the handle is the
//! virtual handle itself. In an ABI with integers as handles, the handle contains the index of the
//! virtual handle:
//!
//! ```text
//!   0xc000_0000 + the null handle of the kind + index
//! ```
//!
//! MPICH gives its own objects numbers of that form, but the program never sees those numbers.

mod foreign_handles;
mod program_abi;

use crate::Runtime;
use crate::generated::{DATA_SYMBOLS, HandleKind};
use crate::handles::{self, DenotedObject, denoted_object};
pub(crate) use foreign_handles::ForeignHandles;
use foreign_handles::{KINDS, PredefinedHandles, RecentTranslation};
pub use program_abi::{
    integer_for_program, integer_from_program, is_foreign_abi, standard_version,
    with_status_for_program,
};
use std::collections::HashMap;
use std::ffi::c_void;
use understudy_mpi::abi::{Abi, foreign_abi};

/// Upper bits of an integer handle of a created object.
const CREATED: u32 = 0xc000_0000;
/// Bits of an integer handle that contain the index.
const INDEX: u32 = 0x03ff_ffff;
/// Lowest value that is not a predefined handle, where handles are pointers (MPI 5.0, 20.3).
const FIRST_POINTER: u64 = 4096;

/// Builds the tables of predefined handles for a program with another ABI than Open MPI's.
///
/// Does nothing for a program with Open MPI's ABI. Must be called after [`handles::connect`].
pub fn connect(rt: &Runtime) {
    let Some(abi) = foreign_abi() else { return };
    let mut predefined = PredefinedHandles {
        inward: [const { None }; KINDS].map(|_: Option<()>| HashMap::new()),
        outward: vec![0; DATA_SYMBOLS.len()],
    };
    let mut created = [CREATED; KINDS];
    for handle in abi.handles {
        let name = handle.symbol.to_str().unwrap_or_default();
        let Some(index) = handles::symbol_index(name) else {
            continue;
        };
        let address = handles::predefined_handle(rt, name) as u64;
        predefined.inward[handle.kind as usize]
            .entry(handle.value)
            .or_insert(address);
        predefined.outward[index] = handle.value;
        if name.ends_with("_null") {
            created[handle.kind as usize] |= handle.value as u32;
        }
    }
    let cells = rt.foreign.created.iter().zip(created);
    cells.for_each(|(cell, handle)| cell.set(handle));
    *rt.foreign.predefined.borrow_mut() = Some(predefined);
}

/// Returns the virtual handle of a program's handle, or null if it has none.
///
/// The object of a created handle need not exist. A pointer that is no predefined handle is
/// returned unchanged, since created handles are pointers too.
#[inline]
pub fn inward(rt: &Runtime, abi: &Abi, kind: HandleKind, handle: u64) -> u64 {
    let handle = if abi.width(kind) == 4 {
        u64::from(handle as u32)
    } else {
        handle
    };
    // Created handles are examined first: programs use new requests all the time.
    if abi.width(kind) == 8 && handle >= FIRST_POINTER {
        return handle;
    }
    let created = rt.foreign.created[kind as usize].get();
    if abi.width(kind) == 4 && handle as u32 & !INDEX == created {
        return handles::virtual_handle(kind, handle as u32 & INDEX) as u64;
    }
    let recent = rt.foreign.recent[kind as usize].get();
    if recent.program_handle == handle && recent.virtual_handle != 0 {
        recent.virtual_handle
    } else {
        find_predefined(rt, kind, handle)
    }
}

#[inline(never)]
fn find_predefined(rt: &Runtime, kind: HandleKind, handle: u64) -> u64 {
    let predefined = rt.foreign.predefined.borrow();
    let Some(predefined) = predefined.as_ref() else {
        return 0;
    };
    let predefined = &predefined.inward[kind as usize];
    let virtual_handle = predefined.get(&handle).copied().unwrap_or_default();
    rt.foreign.recent[kind as usize].set(RecentTranslation {
        program_handle: handle,
        virtual_handle,
    });
    virtual_handle
}

/// Returns the program's handle of a virtual handle; zero if `handle` denotes no object.
#[inline]
pub fn outward(rt: &Runtime, abi: &Abi, kind: HandleKind, handle: u64) -> u64 {
    match denoted_object(handle as *mut c_void) {
        DenotedObject::Predefined(index) => {
            let predefined = rt.foreign.predefined.borrow();
            predefined.as_ref().map_or(0, |all| all.outward[index])
        }
        DenotedObject::Created(_) if abi.width(kind) == 8 => handle,
        DenotedObject::Created(index) => {
            u64::from(rt.foreign.created[kind as usize].get() | (index & INDEX))
        }
        DenotedObject::Nothing => 0,
    }
}

/// Converts a virtual handle for a callback of the program.
pub fn handle_for_program(rt: &Runtime, kind: HandleKind, handle: u64) -> u64 {
    foreign_abi().map_or(handle, |abi| outward(rt, abi, kind, handle))
}

/// Converts a program's handle that did not pass through a translated procedure.
pub fn handle_from_program(rt: &Runtime, kind: HandleKind, handle: u64) -> u64 {
    foreign_abi().map_or(handle, |abi| inward(rt, abi, kind, handle))
}
