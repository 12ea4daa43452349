//! Virtual handles: what the program holds, and how to get from there to the real object.
//!
//! A handle of a predefined object is the address of its data symbol on the user side; the runtime has written an index
//! there. A handle of a created object is an address in a range that is never mapped:
//!
//! ```text
//!   0x1e00_0000_0000 + kind·2³² + index·16
//! ```
//!
//! Both are equal in all ranks and valid in another process. The real handles stand in one array for each kind.
#![allow(unsafe_code)]

use crate::cell::{Field, runtime};
use crate::generated::{DATA_COUNT, HandleKind, PREDEFINED};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

runtime! {
    pub struct Runtime: understudy_job::Runtime {
        reals: Field<Reals> = Field::new(Reals {
            created: [const { Vec::new() }; KINDS],
            predefined: [std::ptr::null_mut(); DATA_COUNT],
            symbols: [0; DATA_COUNT],
            reverse: None,
        }),
        /// By kind; always what a look-up in `reals` would give.
        recent: [Cell<Recent>; KINDS] = [const { Cell::new(NOTHING_RECENT) }; KINDS],
    }
}

include!("generated/virt_types.rs");
use understudy_mpi::real_types::*;

pub const IN_PLACE: *const c_void = std::ptr::without_provenance(1);

const BASE: usize = 0x1e00_0000_0000;
const KIND_SHIFT: u32 = 32;
const INDEX_SHIFT: u32 = 4;
const KINDS: usize = 16;
const SPAN: usize = KINDS << KIND_SHIFT;

/// Marks a data symbol of the user side that the runtime has written; the low 32 bits are an index.
const TAG: u64 = 0x7553_7400_0000_0000;
const TAG_MASK: u64 = 0xffff_ff00_0000_0000;

struct Reals {
    /// By kind and index: real handles of created objects.
    created: [Vec<*mut c_void>; KINDS],
    /// By index of the data symbol: real handles of predefined objects.
    predefined: [*mut c_void; DATA_COUNT],
    /// By index of the data symbol: the user side's address.
    symbols: [usize; DATA_COUNT],
    /// From predefined real handles to the user side's addresses.
    reverse: Option<HashMap<usize, usize>>,
}

// SAFETY: handles are addresses that only the real library follows.
unsafe impl Send for Reals {}

/// What was translated last: programs use the same few handles again and again.
#[derive(Clone, Copy)]
struct Recent {
    handle: *mut c_void,
    real: *mut c_void,
    note: c_int,
}

// SAFETY: as of `Reals`.
unsafe impl Send for Recent {}

const NOTHING_RECENT: Recent = Recent {
    handle: std::ptr::null_mut(),
    real: std::ptr::null_mut(),
    note: 0,
};

/// A number that somebody has found out about the object of the handle that was translated last; forgotten with it. 0: there is none.
/// Of a datatype: its size.
#[inline]
pub fn note(rt: &Runtime, kind: HandleKind, handle: *mut c_void) -> c_int {
    let recent = rt.recent[kind as usize].get();
    if recent.handle == handle {
        recent.note
    } else {
        0
    }
}

/// Notes a number, if the handle is the one that was translated last.
pub fn set_note(rt: &Runtime, kind: HandleKind, handle: *mut c_void, note: c_int) {
    let recent = rt.recent[kind as usize].get();
    if recent.handle == handle {
        rt.recent[kind as usize].set(Recent { note, ..recent });
    }
}

/// What was translated last may have changed.
fn forget_recent(rt: &Runtime) {
    rt.recent
        .iter()
        .for_each(|recent| recent.set(NOTHING_RECENT));
}

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
    // SAFETY: a program may only pass handles; those of predefined objects are addresses of data symbols. A wild pointer
    // faults here as it would in the real library.
    let tag = unsafe { handle.cast::<u64>().read_unaligned() };
    if tag & TAG_MASK == TAG && ((tag & !TAG_MASK) as usize) < DATA_COUNT {
        Named::Predefined((tag & !TAG_MASK) as usize)
    } else {
        Named::Nothing
    }
}

#[inline]
fn real(rt: &Runtime, kind: HandleKind, handle: *mut c_void) -> *mut c_void {
    let Recent {
        handle: known,
        real,
        ..
    } = rt.recent[kind as usize].get();
    if known == handle {
        real
    } else {
        look_up(rt, kind, handle)
    }
}

#[inline(never)]
fn look_up(rt: &Runtime, kind: HandleKind, handle: *mut c_void) -> *mut c_void {
    let reals = rt.reals.borrow();
    let real = match named(handle) {
        Named::Created(index) => reals.created[kind as usize]
            .get(index as usize)
            .copied()
            .unwrap_or(std::ptr::null_mut()),
        Named::Predefined(index) => reals.predefined[index],
        Named::Nothing => std::ptr::null_mut(),
    };
    if !real.is_null() {
        rt.recent[kind as usize].set(Recent {
            handle,
            real,
            note: 0,
        });
    }
    real
}

macro_rules! translations {
    ($($name:ident: $virt:ident => $real:ident, $kind:ident;)*) => {$(
        /// The real handle; null, which every real procedure refuses, if it is none.
        #[inline]
        pub fn $name(rt: &Runtime, handle: $virt) -> $real {
            $real(real(rt, HandleKind::$kind, handle.0))
        }
    )*};
}

translations! {
    real_comm: VirtComm => RealComm, Comm;
    real_group: VirtGroup => RealGroup, Group;
    real_request: VirtRequest => RealRequest, Request;
    real_datatype: VirtDatatype => RealDatatype, Datatype;
    real_op: VirtOp => RealOp, Op;
    real_errhandler: VirtErrhandler => RealErrhandler, Errhandler;
    real_info: VirtInfo => RealInfo, Info;
    real_message: VirtMessage => RealMessage, Message;
    real_win: VirtWin => RealWin, Win;
    real_file: VirtFile => RealFile, File;
    real_session: VirtSession => RealSession, Session;
}

/// Sets the real handle of a created object.
pub fn set_real(rt: &Runtime, kind: HandleKind, index: u32, handle: *mut c_void) {
    rt.recent[kind as usize].set(NOTHING_RECENT);
    let list = &mut rt.reals.borrow_mut().created[kind as usize];
    if list.len() <= index as usize {
        list.resize(
            (index as usize + 1).next_power_of_two(),
            std::ptr::null_mut(),
        );
    }
    list[index as usize] = handle;
}

/// Sets the real handle behind a predefined one (the world communicator's changes with a recovery).
pub fn set_predefined(rt: &Runtime, symbol: usize, handle: *mut c_void) {
    forget_recent(rt);
    let reals = &mut *rt.reals.borrow_mut();
    let old = reals.predefined[symbol];
    reals.predefined[symbol] = handle;
    if let Some(reverse) = &mut reals.reverse {
        reverse.remove(&(old as usize));
        reverse.insert(handle as usize, reals.symbols[symbol]);
    }
}

/// The program's handle of a predefined object, given the real one.
pub fn predefined_of(rt: &Runtime, real: *mut c_void) -> Option<*mut c_void> {
    rt.reals
        .borrow()
        .reverse
        .as_ref()?
        .get(&(real as usize))
        .map(|&address| address as *mut c_void)
}

/// Index of the data symbol of this name.
pub fn symbol_index(name: &str) -> Option<usize> {
    crate::generated::DATA_SYMBOLS
        .iter()
        .position(|(symbol, _)| symbol.to_bytes() == name.as_bytes())
}

/// The program's handle of the predefined object whose data symbol is `name`.
pub fn predefined_handle(rt: &Runtime, name: &str) -> *mut c_void {
    symbol_index(name).map_or(std::ptr::null_mut(), |index| {
        rt.reals.borrow().symbols[index] as *mut c_void
    })
}

/// Connects the predefined handles: `symbols` are the data symbols' addresses on the user side in table order, `real`
/// looks up a symbol of the real library.
pub fn connect(rt: &Runtime, symbols: &[usize], real: impl Fn(&std::ffi::CStr) -> *mut c_void) {
    forget_recent(rt);
    let reals = &mut *rt.reals.borrow_mut();
    reals.symbols.copy_from_slice(symbols);
    let mut reverse = HashMap::new();
    for &(_, index) in PREDEFINED.iter() {
        let (name, _) = crate::generated::DATA_SYMBOLS[index];
        reals.predefined[index] = real(name);
        reverse.insert(reals.predefined[index] as usize, symbols[index]);
    }
    reals.reverse = Some(reverse);
    write_tags(reals);
}

/// Writes the indices into the user side's data symbols.
pub fn mark(rt: &Runtime) {
    write_tags(&rt.reals.borrow());
}

fn write_tags(reals: &Reals) {
    for &(_, index) in PREDEFINED
        .iter()
        .filter(|(_, index)| reals.symbols[*index] != 0)
    {
        // SAFETY: the symbol's storage on the user side, at least a pointer in size, which only this library writes.
        unsafe { (reals.symbols[index] as *mut u64).write_unaligned(TAG | index as u64) };
    }
}
