//! Handles of the tool interface: the program's handles, and the library's.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::null_mut;

/// Real handles by index, and the state of the library's interface.
pub struct RealToolHandles {
    pub(super) cvars: Vec<*mut c_void>,
    pub(super) sessions: Vec<*mut c_void>,
    pub(super) pvars: Vec<*mut c_void>,
    /// True if the library's interface is initialised.
    pub(super) is_open: bool,
    /// True if the interface was initialised before `MPI_Init`.
    ///
    /// A reset returns the library to its state before `MPI_Init`, in which the interface is
    /// already initialised.
    pub(super) was_open: bool,
    /// True if the message of [`check_communicators`](super::written::check_communicators) was
    /// logged.
    pub(super) is_older_logged: bool,
}

impl RealToolHandles {
    /// State at the start of the process.
    pub const START: RealToolHandles = RealToolHandles {
        cvars: Vec::new(),
        sessions: Vec::new(),
        pvars: Vec::new(),
        is_open: false,
        was_open: false,
        is_older_logged: false,
    };
}

// SAFETY: addresses that only the real library dereferences.
unsafe impl Send for RealToolHandles {}

/// Kind of a handle of the tool interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ToolHandleKind {
    Cvar = 0,
    Session = 1,
    Pvar = 2,
    /// Enumeration of a control variable, by the variable's index.
    CvarEnum = 3,
    /// Enumeration of a performance variable, by the variable's index.
    PvarEnum = 4,
}

/// Address of the first handle: after the virtual handles of MPI objects, in unmapped memory.
const HANDLE_BASE: usize = 0x1e20_0000_0000;

/// Returns the program's handle with this index.
pub fn handle(kind: ToolHandleKind, index: u32) -> *mut c_void {
    (HANDLE_BASE + ((kind as usize) << 36) + ((index as usize) << 4)) as *mut c_void
}

/// Returns the index of a handle of the program.
pub fn index(kind: ToolHandleKind, program_handle: *mut c_void) -> Option<u32> {
    let offset = (program_handle as usize).wrapping_sub(handle(kind, 0) as usize);
    (offset < 1 << 36 && offset.is_multiple_of(16)).then_some((offset >> 4) as u32)
}

pub(super) fn set_entry(list: &mut Vec<*mut c_void>, index: u32, real: *mut c_void) {
    if list.len() <= index as usize {
        list.resize(index as usize + 1, null_mut());
    }
    list[index as usize] = real;
}
