//! Conversion of counts of type `MPI_Count` for procedures that take an int.
//!
//! A datatype that contains all elements is created if their number exceeds an int, and one
//! element of this datatype is passed. The standard gave this advice before it had procedures
//! for large counts (MPI 3.1, 4.1.11).
#![allow(unsafe_code, clippy::missing_safety_doc)]

use super::additions::{COMM_WORLD, ERR_COUNT};
use crate::messages::print;
use core::ffi::c_int;
use understudy_catalogue::message;

/// Returns the thunk of a procedure, as a function of the given type.
macro_rules! thunk {
    ($name:ident: $type:ty) => {
        core::mem::transmute::<unsafe extern "C" fn(), $type>(
            crate::thunks::thunks::$name as unsafe extern "C" fn(),
        )
    };
}
pub(super) use thunk;

/// Procedure with the address of a datatype's handle as its argument.
type DatatypeProcedure = unsafe extern "C" fn(*mut usize) -> c_int;
type CallErrorHandler = unsafe extern "C" fn(usize, c_int) -> c_int;

/// Object whose error handler is called for an error.
pub enum ErrorSubject {
    Comm(usize),
    Win(usize),
    File(usize),
    /// The procedure has no such object; MPI_COMM_WORLD's error handler is called.
    None,
}

/// Reports a count that is too large, and calls the object's error handler.
#[cold]
pub fn too_large(name: &str, subject: ErrorSubject) -> c_int {
    print(&message::number_too_large(name));
    fail(subject, ERR_COUNT)
}

/// Calls the object's error handler for an error of this class.
#[cold]
pub fn fail(subject: ErrorSubject, class: c_int) -> c_int {
    // SAFETY: the thunks have this type, and their procedures check the handle.
    unsafe {
        match subject {
            ErrorSubject::Comm(comm) => {
                thunk!(PMPI_Comm_call_errhandler: CallErrorHandler)(comm, class)
            }
            ErrorSubject::Win(win) => {
                thunk!(PMPI_Win_call_errhandler: CallErrorHandler)(win, class)
            }
            ErrorSubject::File(file) => {
                thunk!(PMPI_File_call_errhandler: CallErrorHandler)(file, class)
            }
            ErrorSubject::None => {
                thunk!(PMPI_Comm_call_errhandler: CallErrorHandler)(COMM_WORLD, class)
            }
        }
    };
    class
}

/// Elements of a datatype, or one element of a datatype that contains them all.
pub struct Elements {
    /// Number of elements of [`Elements::datatype`].
    pub count: c_int,
    pub datatype: usize,
    /// True if [`Elements::new`] has created the datatype.
    is_created: bool,
}

impl Elements {
    /// Creates a datatype if `count` exceeds an int.
    ///
    /// `None` if `count` is too small for an int, or if the creation fails.
    pub unsafe fn new(count: i64, datatype: usize) -> Option<Elements> {
        type Contiguous = unsafe extern "C" fn(i64, usize, *mut usize) -> c_int;
        if let Ok(count) = c_int::try_from(count) {
            return Some(Elements {
                count,
                datatype,
                is_created: false,
            });
        }
        // If handles are integers, the procedures write only the lower half.
        let mut contiguous = 0;
        // SAFETY: the thunks have these types. Their procedures check the handle, and write to a
        // local variable.
        let has_failed = count < 0
            || unsafe {
                thunk!(PMPI_Type_contiguous_c: Contiguous)(count, datatype, &mut contiguous) != 0
                    || thunk!(PMPI_Type_commit: DatatypeProcedure)(&mut contiguous) != 0
            };
        (!has_failed).then_some(Elements {
            count: 1,
            datatype: contiguous,
            is_created: true,
        })
    }
}

impl Drop for Elements {
    /// Frees the datatype; pending operations complete normally (MPI 4.1, 5.1.9).
    fn drop(&mut self) {
        if self.is_created {
            // SAFETY: the thunk has this type; `new` has created the datatype, which is freed once.
            unsafe { thunk!(PMPI_Type_free: DatatypeProcedure)(&mut self.datatype) };
        }
    }
}

/// Variable of type `MPI_Count`, with the int that a procedure writes in its place.
pub struct NarrowOutput {
    /// The program's variable.
    wide: *mut i64,
    narrow: c_int,
}

impl NarrowOutput {
    /// Creates the int for the program's variable, which may be null.
    pub fn new(wide: *mut i64) -> NarrowOutput {
        NarrowOutput { wide, narrow: 0 }
    }

    /// Returns the address to pass to the procedure.
    pub fn pointer(&mut self) -> *mut c_int {
        match self.wide.is_null() {
            true => core::ptr::null_mut(),
            false => &raw mut self.narrow,
        }
    }

    /// Stores the procedure's int in the program's variable, if the procedure has succeeded.
    pub unsafe fn store_widened(self, rc: c_int) {
        if rc == 0 && !self.wide.is_null() {
            // SAFETY: MPI makes the program responsible for the pointer.
            unsafe { self.wide.write(i64::from(self.narrow)) };
        }
    }
}
