//! Numbers of `MPI_Count` for procedures that take an int.
//!
//! More elements of a datatype than an int can tell are one element of a datatype that holds them
//! all, as the standard's own advice was before it had such procedures (MPI 3.1, 4.1.11).
#![allow(unsafe_code, clippy::missing_safety_doc)]

use super::additions::{COMM_WORLD, ERR_COUNT};
use crate::msg::say;
use core::ffi::c_int;
use understudy_catalogue::message;

/// The thunk of a procedure, as a function of this type.
macro_rules! thunk {
    ($name:ident: $type:ty) => {
        core::mem::transmute::<unsafe extern "C" fn(), $type>(
            crate::thunks::thunks::$name as unsafe extern "C" fn(),
        )
    };
}
pub(super) use thunk;

/// Takes a place with a handle.
type OfDatatype = unsafe extern "C" fn(*mut usize) -> c_int;
type CallErrorHandler = unsafe extern "C" fn(usize, c_int) -> c_int;

/// What an error belongs to.
pub enum Subject {
    Comm(usize),
    Win(usize),
    File(usize),
    None,
}

/// A count that is too large, or the like: the error handler of the object decides.
#[cold]
pub fn too_large(name: &str, subject: Subject) -> c_int {
    say(&message::number_too_large(name));
    fail(subject, ERR_COUNT)
}

/// An error of this class: the object's error handler is called.
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

/// So many elements of a datatype, or one of a datatype that holds them all.
pub struct Elements {
    /// How many of [`Elements::datatype`] there are.
    pub count: c_int,
    pub datatype: usize,
    is_made: bool,
}

impl Elements {
    /// Nothing if there is no such datatype.
    pub unsafe fn new(count: i64, datatype: usize) -> Option<Elements> {
        type Contiguous = unsafe extern "C" fn(i64, usize, *mut usize) -> c_int;
        if let Ok(count) = c_int::try_from(count) {
            return Some(Elements {
                count,
                datatype,
                is_made: false,
            });
        }
        // Half of it is written where handles are integers.
        let mut all = 0;
        // SAFETY: thunks of these procedures, the program's handle, and places of ours.
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
    /// What is under way keeps it (MPI 4.1, 5.1.9).
    fn drop(&mut self) {
        if self.is_made {
            // SAFETY: the thunk of the procedure, and a handle of ours.
            unsafe { thunk!(PMPI_Type_free: OfDatatype)(&mut self.datatype) };
        }
    }
}

/// A place that gets a number.
pub struct Place {
    to: *mut i64,
    number: c_int,
}

impl Place {
    /// For the program's place.
    pub fn new(to: *mut i64) -> Place {
        Place { to, number: 0 }
    }

    /// The place for the procedure.
    pub fn place(&mut self) -> *mut c_int {
        match self.to.is_null() {
            true => core::ptr::null_mut(),
            false => &raw mut self.number,
        }
    }

    /// Widens what has been written.
    pub unsafe fn put_back(self, rc: c_int) {
        if rc == 0 && !self.to.is_null() {
            // SAFETY: the program's place.
            unsafe { self.to.write(i64::from(self.number)) };
        }
    }
}
