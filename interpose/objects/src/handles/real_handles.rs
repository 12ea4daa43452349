//! Translations between virtual handles and real handles.
#![allow(unsafe_code)]

use super::handle_table::{NOTHING_RECENT, RealHandles, RecentTranslation};
use super::virtual_handles::{
    DenotedObject, TAG, VirtComm, VirtDatatype, VirtErrhandler, VirtFile, VirtGroup, VirtInfo,
    VirtMessage, VirtOp, VirtRequest, VirtSession, VirtWin, denoted_object, symbol_index,
};
use crate::Runtime;
use crate::generated::{HandleKind, PREDEFINED};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::*;

/// Returns the number that [`cache_number`] has stored for a handle; zero if none.
///
/// The number is lost when another handle of this kind is translated. The number of a datatype is
/// its size.
#[inline]
pub fn cached_number(rt: &Runtime, kind: HandleKind, handle: *mut c_void) -> c_int {
    let recent = rt.handles.recent[kind as usize].get();
    if recent.handle == handle {
        recent.number
    } else {
        0
    }
}

/// Caches a number, if `handle` is the most recently translated one of its kind.
pub fn cache_number(rt: &Runtime, kind: HandleKind, handle: *mut c_void, number: c_int) {
    let recent = rt.handles.recent[kind as usize].get();
    if recent.handle == handle {
        rt.handles.recent[kind as usize].set(RecentTranslation { number, ..recent });
    }
}

/// Discards the most recent translations, which may be out of date.
fn forget_recent(rt: &Runtime) {
    rt.handles
        .recent
        .iter()
        .for_each(|recent| recent.set(NOTHING_RECENT));
}

#[inline]
fn real(rt: &Runtime, kind: HandleKind, handle: *mut c_void) -> *mut c_void {
    let RecentTranslation {
        handle: known,
        real,
        ..
    } = rt.handles.recent[kind as usize].get();
    if known == handle {
        real
    } else {
        find_real_handle(rt, kind, handle)
    }
}

#[inline(never)]
fn find_real_handle(rt: &Runtime, kind: HandleKind, handle: *mut c_void) -> *mut c_void {
    let real_handles = rt.handles.real_handles.borrow();
    let real = match denoted_object(handle) {
        DenotedObject::Created(index) => real_handles.created[kind as usize]
            .get(index as usize)
            .copied()
            .unwrap_or(std::ptr::null_mut()),
        DenotedObject::Predefined(index) => real_handles.predefined[index],
        DenotedObject::Nothing => std::ptr::null_mut(),
    };
    if !real.is_null() {
        rt.handles.recent[kind as usize].set(RecentTranslation {
            handle,
            real,
            number: 0,
        });
    }
    real
}

macro_rules! translations {
    ($($name:ident: $virt:ident => $real:ident, $kind:ident;)*) => {$(
        /// Returns the real handle; null if `handle` is invalid.
        ///
        /// Real procedures report an error for a null pointer as a handle if error checking is on,
        /// as it is by default in Open MPI and MPICH.
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
    rt.handles.recent[kind as usize].set(NOTHING_RECENT);
    let list = &mut rt.handles.real_handles.borrow_mut().created[kind as usize];
    if list.len() <= index as usize {
        list.resize(
            (index as usize + 1).next_power_of_two(),
            std::ptr::null_mut(),
        );
    }
    list[index as usize] = handle;
}

/// Sets the real handle behind a predefined handle.
///
/// The real handles of `MPI_COMM_WORLD` and `MPI_COMM_SELF` change at the start and at a recovery.
pub fn set_predefined(rt: &Runtime, symbol: usize, handle: *mut c_void) {
    forget_recent(rt);
    let real_handles = &mut *rt.handles.real_handles.borrow_mut();
    let old = real_handles.predefined[symbol];
    real_handles.predefined[symbol] = handle;
    if let Some(reverse) = &mut real_handles.reverse {
        reverse.remove(&(old as usize));
        reverse.insert(handle as usize, real_handles.symbols[symbol]);
    }
}

/// Returns the program's handle of a predefined object, given the real handle.
pub fn predefined_of(rt: &Runtime, real: *mut c_void) -> Option<*mut c_void> {
    rt.handles
        .real_handles
        .borrow()
        .reverse
        .as_ref()?
        .get(&(real as usize))
        .map(|&address| address as *mut c_void)
}

/// Returns the program's handle of the predefined object whose data symbol is `name`.
pub fn predefined_handle(rt: &Runtime, name: &str) -> *mut c_void {
    symbol_index(name).map_or(std::ptr::null_mut(), |index| {
        rt.handles.real_handles.borrow().symbols[index] as *mut c_void
    })
}

/// Builds the tables of the predefined handles, and writes the program's data symbols.
///
/// `symbols` are the addresses of the data symbols on the program side, in table order; `real`
/// looks up a symbol of the real library.
pub fn connect(rt: &Runtime, symbols: &[usize], real: impl Fn(&std::ffi::CStr) -> *mut c_void) {
    forget_recent(rt);
    let real_handles = &mut *rt.handles.real_handles.borrow_mut();
    real_handles.symbols.copy_from_slice(symbols);
    let mut reverse = HashMap::new();
    for &(_, index) in PREDEFINED.iter() {
        let (name, _) = crate::generated::DATA_SYMBOLS[index];
        real_handles.predefined[index] = real(name);
        reverse.insert(real_handles.predefined[index] as usize, symbols[index]);
    }
    real_handles.reverse = Some(reverse);
    write_tags(real_handles);
}

/// Writes tags and indices into the data symbols of the program side.
pub fn write_symbol_tags(rt: &Runtime) {
    write_tags(&rt.handles.real_handles.borrow());
}

fn write_tags(real_handles: &RealHandles) {
    for &(_, index) in PREDEFINED
        .iter()
        .filter(|(_, index)| real_handles.symbols[*index] != 0)
    {
        // SAFETY: the address is the symbol's storage on the program side, which is at least as
        // large as a pointer, and which only this library writes.
        unsafe { (real_handles.symbols[index] as *mut u64).write_unaligned(TAG | index as u64) };
    }
}
