//! Numbers of `MPI_Count` for procedures that take an int.
//!
//! A number of elements that exceeds an int is passed as one element of a datatype that contains
//! them all. The standard gave this advice before it had procedures for large counts (MPI 3.1,
//! 4.1.11).
#![allow(unsafe_code, clippy::missing_safety_doc)]

use super::additions::{COMM_WORLD, ERR_COUNT};
use crate::msg::say;
use core::ffi::c_int;
use understudy_catalogue::message;

/// Returns the thunk of a procedure, as a function of this type.
macro_rules! thunk {
    ($name:ident: $type:ty) => {
        core::mem::transmute::<unsafe extern "C" fn(), $type>(
            crate::thunks::thunks::$name as unsafe extern "C" fn(),
        )
    };
}
pub(super) use thunk;

/// Function that takes the address of a handle.
type OfDatatype = unsafe extern "C" fn(*mut usize) -> c_int;
type CallErrorHandler = unsafe extern "C" fn(usize, c_int) -> c_int;

/// Object to which an error belongs.
pub enum Subject {
    Comm(usize),
    Win(usize),
    File(usize),
    None,
}

/// Reports a number that is too large, and calls the object's error handler.
#[cold]
pub fn too_large(name: &str, subject: Subject) -> c_int {
    say(&message::number_too_large(name));
    fail(subject, ERR_COUNT)
}

/// Calls the object's error handler for an error of this class.
#[cold]
pub fn fail(subject: Subject, class: c_int) -> c_int {
    // SAFETY: thunks of these procedures, and the program's handle.
    unsafe {
        match subject {
            Subject::Comm(comm) => thunk!(PMPI_Comm_call_errhandler: CallErrorHandler)(comm, class),
            Subject::Win(win) => thunk!(PMPI_Win_call_errhandler: CallErrorHandler)(win, class),
            Subject::File(file) => thunk!(PMPI_File_call_errhandler: CallErrorHandler)(file, class),
            Subject::None => thunk!(PMPI_Comm_call_errhandler: CallErrorHandler)(COMM_WORLD, class),
        }
    };
    class
}

/// Elements of a datatype, or one element of a datatype that contains them all.
pub struct Elements {
    /// Number of elements of [`Elements::datatype`].
    pub count: c_int,
    pub datatype: usize,
    is_made: bool,
}

impl Elements {
    /// Returns `None` if such a datatype cannot be created.
    pub unsafe fn new(count: i64, datatype: usize) -> Option<Elements> {
        type Contiguous = unsafe extern "C" fn(i64, usize, *mut usize) -> c_int;
        if let Ok(count) = c_int::try_from(count) {
            return Some(Elements {
                count,
                datatype,
                is_made: false,
            });
        }
        // Only the lower half is written if handles are integers.
        let mut all = 0;
        // SAFETY: thunks of these procedures, the program's handle, and local variables.
        let has_failed = count < 0
            || unsafe {
                thunk!(PMPI_Type_contiguous_c: Contiguous)(count, datatype, &mut all) != 0
                    || thunk!(PMPI_Type_commit: OfDatatype)(&mut all) != 0
            };
        (!has_failed).then_some(Elements {
            count: 1,
            datatype: all,
            is_made: true,
        })
    }
}

impl Drop for Elements {
    /// Frees the datatype; pending operations keep it (MPI 4.1, 5.1.9).
    fn drop(&mut self) {
        if self.is_made {
            // SAFETY: the thunk of the procedure, and a handle that this type has created.
            unsafe { thunk!(PMPI_Type_free: OfDatatype)(&mut self.datatype) };
        }
    }
}

/// Variable of the program that receives a number.
pub struct Place {
    to: *mut i64,
    number: c_int,
}

impl Place {
    /// Creates an entry for the program's variable.
    pub fn new(to: *mut i64) -> Place {
        Place { to, number: 0 }
    }

    /// Returns the address to pass to the procedure.
    pub fn place(&mut self) -> *mut c_int {
        match self.to.is_null() {
            true => core::ptr::null_mut(),
            false => &raw mut self.number,
        }
    }

    /// Stores the number that the procedure has written, widened.
    pub unsafe fn put_back(self, rc: c_int) {
        if rc == 0 && !self.to.is_null() {
            // SAFETY: the pointer is the program's.
            unsafe { self.to.write(i64::from(self.number)) };
        }
    }
}
