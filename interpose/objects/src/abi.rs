//! The handles of a program of another ABI than Open MPI's, and what its callbacks get.
//!
//! A predefined handle is a number of the ABI; that of a created object is made of the index of the virtual handle:
//! where handles are pointers it is the virtual handle itself, and where they are integers
//!
//! ```text
//!   0xc000_0000 + the null handle of the kind + index
//! ```
//!
//! MPICH gives its own objects numbers of that form, but the program never sees those.
#![allow(unsafe_code)]

use crate::cell::{Field, runtime};
use crate::generated::{DATA_SYMBOLS, HandleKind, real};
use crate::handles::{self, Named, named};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::{Abi, Domain, current};
use understudy_mpi::real_types::Status;

runtime! {
    pub struct Runtime: handles::Runtime {
        /// Predefined handles; `None`: the program has the ABI of the runtime.
        known: Field<Option<Known>> = Field::new(None),
        /// What was translated last, of each kind: the program's value and the virtual handle.
        recent_foreign: Field<[(u64, u64); KINDS]> = Field::new([(0, 0); KINDS]),
    }
}

/// Marks a created object.
const CREATED: u32 = 0xc000_0000;
/// Bits of the index.
const INDEX: u32 = 0x03ff_ffff;
/// Numbers below are predefined handles where handles are pointers (MPI 5.0, 20.3).
const FIRST_POINTER: u64 = 4096;
const KINDS: usize = 11;

/// Predefined handles, both ways.
struct Known {
    /// By kind and the program's value: the virtual handle.
    inward: [HashMap<u64, u64>; KINDS],
    /// By the index of the data symbol: the program's value.
    outward: Vec<u64>,
    /// By kind: the null handle.
    null: [u64; KINDS],
}

/// Whether the program has another ABI than Open MPI's; it always has that of its library.
pub fn is_foreign() -> bool {
    current().is_some()
}

/// Version and subversion of the standard that the library has.
pub fn standard_version() -> (c_int, c_int) {
    let [mut version, mut subversion] = [0; 2];
    // SAFETY: two places.
    unsafe { real::PMPI_Get_version(&mut version, &mut subversion) };
    (version, subversion)
}

/// Connects the predefined handles. To be called after [`handles::connect`].
pub fn connect(rt: &Runtime) {
    let Some(abi) = current() else { return };
    let mut known = Known {
        inward: [const { None }; KINDS].map(|_: Option<()>| HashMap::new()),
        outward: vec![0; DATA_SYMBOLS.len()],
        null: [0; KINDS],
    };
    for handle in abi.handles {
        let name = handle.symbol.to_str().unwrap_or_default();
        let Some(index) = handles::symbol_index(name) else {
            continue;
        };
        let address = handles::predefined_handle(rt, name) as u64;
        known.inward[handle.kind as usize]
            .entry(handle.value)
            .or_insert(address);
        known.outward[index] = handle.value;
        if name.ends_with("_null") {
            known.null[handle.kind as usize] = handle.value;
        }
    }
    *rt.known.borrow_mut() = Some(known);
}

/// The virtual handle of a handle of the program's; null if it is none.
#[inline]
pub fn inward(rt: &Runtime, abi: &Abi, kind: HandleKind, handle: u64) -> u64 {
    let handle = if abi.width(kind) == 4 {
        u64::from(handle as u32)
    } else {
        handle
    };
    let (known, found) = rt.recent_foreign.borrow()[kind as usize];
    if known == handle && found != 0 {
        found
    } else {
        look_up(rt, abi, kind, handle)
    }
}

#[inline(never)]
fn look_up(rt: &Runtime, abi: &Abi, kind: HandleKind, handle: u64) -> u64 {
    let known = rt.known.borrow();
    let Some(known) = known.as_ref() else {
        return 0;
    };
    let predefined = known.inward[kind as usize].get(&handle).copied();
    let found = match predefined {
        Some(address) => address,
        None if abi.width(kind) == 8 && handle >= FIRST_POINTER => handle,
        None if handle as u32 & !INDEX == CREATED | known.null[kind as usize] as u32 => {
            handles::virtual_handle(kind, handle as u32 & INDEX) as u64
        }
        None => 0,
    };
    rt.recent_foreign.borrow_mut()[kind as usize] = (handle, found);
    found
}

/// The program's handle of a virtual handle.
pub fn outward(rt: &Runtime, abi: &Abi, kind: HandleKind, handle: u64) -> u64 {
    let known = rt.known.borrow();
    let Some(known) = known.as_ref() else {
        return 0;
    };
    match named(handle as *mut c_void) {
        Named::Predefined(index) => known.outward[index],
        Named::Created(_) if abi.width(kind) == 8 => handle,
        Named::Created(index) => {
            u64::from(CREATED | known.null[kind as usize] as u32 | (index & INDEX))
        }
        Named::Nothing => 0,
    }
}

/// A handle as a callback of the program gets it.
pub fn for_program(rt: &Runtime, kind: HandleKind, handle: u64) -> u64 {
    current().map_or(handle, |abi| outward(rt, abi, kind, handle))
}

/// A handle that the program hands over where there is no edge.
pub fn of_program(rt: &Runtime, kind: HandleKind, handle: u64) -> u64 {
    current().map_or(handle, |abi| inward(rt, abi, kind, handle))
}

/// Lets a callback of the program write a status of its own ABI.
pub fn with_status_for_program(status: &mut Status, callback: impl FnOnce(*mut c_void)) {
    let Some(abi) = current() else {
        return callback((&raw mut *status).cast());
    };
    let mut theirs = [0u64; 5];
    // SAFETY: there is room for a status of any ABI.
    unsafe {
        abi.write_status(theirs.as_mut_ptr().cast(), status);
        callback(theirs.as_mut_ptr().cast());
        *status = abi.read_status(theirs.as_ptr().cast());
    }
}

/// An integer as a callback of the program, or a place of it, gets it.
pub fn integer_for_program(domain: Domain, value: c_int) -> c_int {
    current().map_or(value, |abi| abi.foreign(domain, value))
}

/// An integer that a callback of the program has returned.
pub fn integer_of_program(domain: Domain, value: c_int) -> c_int {
    current().map_or(value, |abi| abi.canonical(domain, value))
}
