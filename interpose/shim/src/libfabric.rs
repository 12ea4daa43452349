//! Separates receives that libfabric ends because of a failure from cancelled ones.
//!
//! Providers of libfabric may end receives with FI_ECANCELED when a connection breaks. That is the
//! code of an operation that fi_cancel(3) has ended. Open MPI (`mtl/ofi`) and MPICH then complete
//! the request as cancelled and without an error. Their collective calls do not expect that, and
//! return success with the data that the buffer happened to contain. The functions below replace
//! the code by FI_EIO unless the MPI library has cancelled the operation itself, so that the call
//! fails.
//!
//! libfabric's objects contain tables of functions, which inline functions of its headers call. The
//! order of the functions is part of libfabric's binary interface. fi_fabric(3) makes the first
//! object, and functions of its table make all others:
//!
//! ```text
//! fi_fabric ─► fabric ─► domain ─┬► completion queue   readerr
//!                                └► endpoint           cancel
//! ```
#![allow(unsafe_code)]

use crate::namespace_search::loaded_function;
use crate::threads::libc_function;
use crate::time::now;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};

/// Codes of libfabric, which are those of errno(3).
const FI_EIO: c_int = 5;
const FI_ENOMEM: c_int = 12;
const FI_ENOSYS: c_int = 38;
const FI_ECANCELED: c_int = 125;

/// First fields of a fabric, a domain, a completion queue and an endpoint.
#[repr(C)]
struct Object {
    class: usize,
    context: *mut c_void,
    common_functions: *mut c_void,
    /// Table of functions, which begins with its size in bytes.
    functions: *const usize,
}

/// First fields of `struct fi_cq_err_entry`.
#[repr(C)]
struct ErrorEntry {
    operation: usize,
    flags: u64,
    length: usize,
    buffer: *mut c_void,
    data: u64,
    tag: u64,
    excess: usize,
    error: c_int,
}

/// Function of a table; functions with fewer parameters ignore the last arguments.
type Function = unsafe extern "C" fn(*mut Object, usize, usize, usize, usize) -> isize;

/// Function that replaces the one at an index of a table.
type Replacement = (usize, Function);

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
}

/// Gives an object a copy of its table in which functions are replaced.
///
/// The word before the copy contains the address of the object's own table. The copy lives as long
/// as the MPI instance. Returns 0, or a negative error code.
///
/// # Safety
/// The object must be valid, with a table whose functions have the numbers of `replacements`.
unsafe fn replace_functions(object: *mut Object, replacements: &[Replacement]) -> c_int {
    // SAFETY: the caller guarantees a valid table. The copy has one word more than the table.
    unsafe {
        let table = (*object).functions;
        let words = *table / size_of::<usize>();
        let copy: *mut usize = malloc((words + 1) * size_of::<usize>()).cast();
        if copy.is_null() {
            return -FI_ENOMEM;
        }
        *copy = table as usize;
        copy_nonoverlapping(table, copy.add(1), words);
        for &(index, function) in replacements {
            // Tables of older versions are shorter.
            if index < words && *table.add(index) != 0 {
                *copy.add(1 + index) = function as usize;
            }
        }
        (*object).functions = copy.add(1);
    }
    0
}

/// Returns a function of the object's own table.
///
/// # Safety
/// [`replace_functions`] must have replaced the function at this index.
unsafe fn own_function(object: *mut Object, index: usize) -> Function {
    // SAFETY: the word before the copy is the address of the object's own table.
    unsafe {
        let table = *(*object).functions.sub(1) as *const usize;
        transmute(*table.add(index))
    }
}

/// Defines replacements of functions that make an object, and the replacements in that object.
///
/// The number of the parameter is that of the pointer to the new object, which comes after the
/// parameter for the parent.
macro_rules! constructors {
    ($($name:ident: index $index:literal, parameter $parameter:tt, $replacements:ident;)*) => {$(
        unsafe extern "C" fn $name(
            parent: *mut Object, a: usize, b: usize, c: usize, d: usize,
        ) -> isize {
            // SAFETY: libfabric's caller passes the arguments of the function at this index, which
            // stores the address of a valid object if it returns 0.
            unsafe {
                match own_function(parent, $index)(parent, a, b, c, d) {
                    0 => {
                        let object = (a, b, c, d).$parameter as *const *mut Object;
                        replace_functions(*object, &$replacements) as isize
                    }
                    error => error,
                }
            }
        }
    )*};
}

constructors! {
    open_domain: index 1, parameter 1, IN_DOMAIN;
    open_domain2: index 6, parameter 1, IN_DOMAIN;
    open_completion_queue: index 2, parameter 1, IN_COMPLETION_QUEUE;
    open_endpoint: index 3, parameter 1, IN_ENDPOINT;
    open_scalable_endpoint: index 4, parameter 1, IN_ENDPOINT;
    open_shared_receives: index 8, parameter 1, IN_ENDPOINT;
    open_endpoint2: index 11, parameter 1, IN_ENDPOINT;
    open_receive_context: index 5, parameter 2, IN_ENDPOINT;
}

const IN_FABRIC: [Replacement; 2] = [(1, open_domain), (6, open_domain2)];
const IN_DOMAIN: [Replacement; 5] = [
    (2, open_completion_queue),
    (3, open_endpoint),
    (4, open_scalable_endpoint),
    (8, open_shared_receives),
    (11, open_endpoint2),
];
const IN_ENDPOINT: [Replacement; 2] = [(CANCEL, cancel), (5, open_receive_context)];
const IN_COMPLETION_QUEUE: [Replacement; 1] = [(READ_ERROR, read_error)];
const CANCEL: usize = 1;
const READ_ERROR: usize = 3;

/// `readerr` of a completion queue: reads the entry of a failed operation.
unsafe extern "C" fn read_error(
    queue: *mut Object,
    entry: usize,
    flags: usize,
    c: usize,
    d: usize,
) -> isize {
    // SAFETY: libfabric's caller passes a valid queue and a place for an entry, which a positive
    // result fills.
    unsafe {
        let count = own_function(queue, READ_ERROR)(queue, entry, flags, c, d);
        let entry = entry as *mut ErrorEntry;
        if count > 0
            && (*entry).error == FI_ECANCELED
            && !CANCELLED.remove_recent((*entry).operation)
        {
            (*entry).error = FI_EIO;
        }
        count
    }
}

/// `cancel` of an endpoint: cancels the operation with this context.
unsafe extern "C" fn cancel(
    endpoint: *mut Object,
    operation: usize,
    b: usize,
    c: usize,
    d: usize,
) -> isize {
    CANCELLED.add(operation);
    // SAFETY: libfabric's caller passes a valid endpoint.
    unsafe { own_function(endpoint, CANCEL)(endpoint, operation, b, c, d) }
}

/// The operations that were last cancelled, with the times of the calls in nanoseconds.
///
/// MPI libraries read the outcome within the call that cancels, so a few entries suffice. A message
/// may arrive before the cancellation. Its entry must not remain, because the MPI library uses the
/// same address for a later operation.
struct CancelledOperations {
    entries: [(AtomicUsize, AtomicU64); 64],
    next: AtomicUsize,
}

/// Time in nanoseconds within which an MPI library reads the outcome of a cancellation.
const CANCELLATION_LIMIT_NS: u64 = 1_000_000_000;

static CANCELLED: CancelledOperations = CancelledOperations {
    entries: [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; 64],
    next: AtomicUsize::new(0),
};

impl CancelledOperations {
    fn add(&self, operation: usize) {
        // The message of an earlier operation with this address may have arrived.
        while self.remove(operation).is_some() {}
        let next = self.next.fetch_add(1, Relaxed) % self.entries.len();
        if let Some((place, time)) = self.entries.get(next) {
            time.store(now(), Relaxed);
            place.store(operation, Relaxed);
        }
    }

    /// Removes an operation; returns the time of the call that has cancelled it.
    fn remove(&self, operation: usize) -> Option<u64> {
        let is_here = |(place, _): &&(AtomicUsize, AtomicU64)| {
            let removal = place.compare_exchange(operation, 0, Relaxed, Relaxed);
            removal.is_ok()
        };
        let entry = self.entries.iter().find(is_here);
        entry.map(|(_, time)| time.load(Relaxed))
    }

    /// Removes an operation; returns true if it was cancelled recently.
    fn remove_recent(&self, operation: usize) -> bool {
        self.remove(operation)
            .is_some_and(|time| now().saturating_sub(time) < CANCELLATION_LIMIT_NS)
    }
}

/// Address of libfabric's fi_fabric(3); zero if it is not known.
static REAL_FABRIC: AtomicUsize = AtomicUsize::new(0);

/// Addresses and names of libfabric's functions that this module calls.
///
/// libfabric may be a part of the MPI library.
pub static REAL: [(&AtomicUsize, &CStr); 1] = [(&REAL_FABRIC, FABRIC)];

const FABRIC: &CStr = c"fi_fabric";

/// fi_fabric(3): opens a fabric.
///
/// Returns 0 or a negative error code, -FI_ENOSYS if no library has the function.
///
/// # Safety
/// The requirements of fi_fabric(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_fabric(
    attributes: *mut c_void,
    fabric: *mut *mut c_void,
    context: *mut c_void,
) -> c_int {
    let real = loaded_function(&REAL_FABRIC, FABRIC, fi_fabric as *const c_void);
    if real == 0 {
        return -FI_ENOSYS;
    }
    // SAFETY: libfabric's function has this type, and stores the address of a valid object if it
    // returns 0.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int =
            transmute(real);
        match real(attributes, fabric, context) {
            0 => replace_functions((*fabric).cast(), &IN_FABRIC),
            error => error,
        }
    }
}

/// dlvsym(3), which also returns the function above to libraries that load libfabric themselves.
///
/// Intel MPI is such a library.
///
/// # Safety
/// The requirements of dlvsym(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void =
            transmute(libc_function(&REAL, c"dlvsym"));
        let function = real(handle, name, version);
        if function.is_null() || CStr::from_ptr(name) != FABRIC {
            return function;
        }
        REAL_FABRIC.store(function as usize, Relaxed);
        fi_fabric as *mut c_void
    }
}
