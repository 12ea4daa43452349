//! Numbers and arrays of `MPI_Count` for procedures that take an int.
//!
//! More elements of a datatype than an int can tell are one element of a datatype that holds them all, as the standard's own advice was before
//! it had such procedures (MPI 3.1, 4.1.11). Reductions, whose operators know predefined datatypes only, and arrays of counts have no such way.
//!
//! Few numbers are on the stack, more in the program's heap: both go back with the program.
#![allow(unsafe_code, clippy::missing_safety_doc)]

use super::generated::{CART, COMM_WORLD, DIST_GRAPH, ERR_COUNT, GRAPH, ROOT};
use crate::msg::say;
use core::ffi::{c_int, c_void};

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

/// The thunk of a procedure, as a function of this type.
macro_rules! thunk {
    ($name:ident: $type:ty) => {
        core::mem::transmute::<unsafe extern "C" fn(), $type>(crate::thunks::thunks::$name as unsafe extern "C" fn())
    };
}
pub(super) use thunk;

/// Takes an object and a place for a number.
pub(super) type Ask = unsafe extern "C" fn(usize, *mut c_int) -> c_int;
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
    say(format_args!(
        "{name}: such a count or displacement, of more than 31 bits, is not supported under protection"
    ));
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
    /// The handle.
    pub datatype: usize,
    is_made: bool,
}

impl Elements {
    /// Nothing if there is no such datatype. Where the standard lets the process leave them open, they are not looked at.
    pub unsafe fn new(count: i64, datatype: usize, are_given: impl FnOnce() -> bool) -> Option<Elements> {
        type Contiguous = unsafe extern "C" fn(i64, usize, *mut usize) -> c_int;
        if let Ok(count) = c_int::try_from(count) {
            return Some(Elements {
                count,
                datatype,
                is_made: false,
            });
        }
        if !are_given() {
            return Some(Elements {
                count: 0,
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

/// So many elements fit on the stack.
const FEW: usize = 32;

/// A narrowed array.
pub struct Array {
    few: [c_int; FEW],
    many: *mut c_int,
    /// What is handed on if there is nothing to narrow.
    instead: Option<*const c_int>,
    is_kept: bool,
}

impl Array {
    /// Narrows the program's array, unless there is none or it is not to be looked at; nothing if an element does not fit. One that is
    /// kept is never freed: the library may look at it as long as the operation goes on.
    pub unsafe fn new(
        from: *const i64,
        is_given: bool,
        length: impl FnOnce() -> c_int,
        is_kept: bool,
    ) -> Option<Array> {
        let mut array = Array {
            few: [0; FEW],
            many: core::ptr::null_mut(),
            instead: None,
            is_kept,
        };
        if from.is_null() || !is_given {
            array.instead = Some(from.cast());
            return Some(array);
        }
        let length = usize::try_from(length()).unwrap_or(0);
        // SAFETY: malloc(3); an array of the program's, of this length.
        unsafe {
            if length > FEW || is_kept {
                array.many = malloc(length.max(1) * size_of::<c_int>()).cast();
                if array.many.is_null() {
                    return None;
                }
            }
            let to = if array.many.is_null() {
                array.few.as_mut_ptr()
            } else {
                array.many
            };
            for index in 0..length {
                let Ok(element) = c_int::try_from(*from.add(index)) else {
                    array.is_kept = false;
                    return None;
                };
                to.add(index).write(element);
            }
        }
        Some(array)
    }

    /// Where the elements are.
    pub fn place(&mut self) -> *const c_int {
        match self.instead {
            Some(place) => place,
            None if self.many.is_null() => self.few.as_ptr(),
            None => self.many,
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if !self.is_kept {
            // SAFETY: free(3) of a block of malloc's, or of none.
            unsafe { free(self.many.cast()) };
        }
    }
}

/// A place that gets a number.
pub struct Place {
    to: *mut i64,
    number: c_int,
}

impl Place {
    /// For the program's place; nothing if the number that is there does not fit.
    pub unsafe fn new(to: *mut i64, is_read: bool) -> Option<Place> {
        let number = match is_read && !to.is_null() {
            // SAFETY: the program's place.
            true => c_int::try_from(unsafe { *to }).ok()?,
            false => 0,
        };
        Some(Place { to, number })
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

/// What a procedure says of a communicator; 0 if it cannot, and the call to come will say why.
unsafe fn ask(ask: Ask, comm: usize) -> c_int {
    let mut answer = 0;
    // SAFETY: the program's handle.
    match unsafe { ask(comm, &mut answer) } {
        0 => answer,
        _ => 0,
    }
}

/// Members of the local group.
pub unsafe fn local_size(comm: usize) -> c_int {
    // SAFETY: the thunk of the procedure.
    unsafe { ask(thunk!(PMPI_Comm_size: Ask), comm) }
}

unsafe fn is_inter(comm: usize) -> bool {
    // SAFETY: the thunk of the procedure.
    unsafe { ask(thunk!(PMPI_Comm_test_inter: Ask), comm) != 0 }
}

/// Members of the group that is communicated with.
pub unsafe fn other_size(comm: usize) -> c_int {
    // SAFETY: the thunk of the procedure.
    unsafe {
        match is_inter(comm) {
            true => ask(thunk!(PMPI_Comm_remote_size: Ask), comm),
            false => local_size(comm),
        }
    }
}

/// Whether this process is the root of a collective.
pub unsafe fn is_root(comm: usize, root: usize) -> bool {
    let root = root as c_int;
    // SAFETY: the thunk of the procedure.
    unsafe {
        match is_inter(comm) {
            true => root == ROOT,
            false => root == ask(thunk!(PMPI_Comm_rank: Ask), comm),
        }
    }
}

/// Neighbours of the calling process: those it receives from, those it sends to (MPI 4.1, 8.6).
pub unsafe fn degrees(comm: usize) -> (c_int, c_int) {
    type AskThree = unsafe extern "C" fn(usize, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    type AskOf = unsafe extern "C" fn(usize, c_int, *mut c_int) -> c_int;
    let (mut from, mut to, mut weighted) = (0, 0, 0);
    // SAFETY: thunks of these procedures.
    unsafe {
        match ask(thunk!(PMPI_Topo_test: Ask), comm) {
            CART => {
                from = 2 * ask(thunk!(PMPI_Cartdim_get: Ask), comm);
                to = from;
            }
            GRAPH => {
                let rank = ask(thunk!(PMPI_Comm_rank: Ask), comm);
                thunk!(PMPI_Graph_neighbors_count: AskOf)(comm, rank, &mut from);
                to = from;
            }
            DIST_GRAPH => {
                thunk!(PMPI_Dist_graph_neighbors_count: AskThree)(comm, &mut from, &mut to, &mut weighted);
            }
            _ => (),
        }
    }
    (from, to)
}
