//! C procedures, and conversions between the C and Fortran bindings (MPI 4.1, 19.3).
#![allow(unsafe_code, non_snake_case)]

use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

/// A handle of the C bindings.
pub type Handle = *mut c_void;
/// Initial value of a variable that receives a handle.
pub const NO_HANDLE: Handle = core::ptr::null_mut();

pub const SUCCESS: c_int = 0;
// Constants of Open MPI's C bindings.
pub const ERR_ARG: c_int = 13;
pub const ERR_IN_STATUS: c_int = 18;
pub const UNDEFINED: c_int = -32766;
const IN_PLACE: *mut c_void = core::ptr::without_provenance_mut(1);
const BOTTOM: *mut c_void = core::ptr::null_mut();
const CART: c_int = 1;
const GRAPH: c_int = 2;
const DIST_GRAPH: c_int = 3;

/// Number of integers in a status in Fortran (`MPI_STATUS_SIZE`).
pub const STATUS_SIZE: usize = 6;

/// `MPI_Status`; Fortran accesses the same bytes as integers.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub struct Status([c_int; STATUS_SIZE]);

unsafe extern "C" {
    pub fn PMPI_Comm_f2c(number: c_int) -> Handle;
    pub fn PMPI_Comm_c2f(handle: Handle) -> c_int;
    pub fn PMPI_Type_f2c(number: c_int) -> Handle;
    pub fn PMPI_Type_c2f(handle: Handle) -> c_int;
    pub fn PMPI_Group_f2c(number: c_int) -> Handle;
    pub fn PMPI_Group_c2f(handle: Handle) -> c_int;
    pub fn PMPI_Op_f2c(number: c_int) -> Handle;
    pub fn PMPI_Op_c2f(handle: Handle) -> c_int;
    pub fn PMPI_Info_f2c(number: c_int) -> Handle;
    pub fn PMPI_Request_f2c(number: c_int) -> Handle;
    pub fn PMPI_Request_c2f(handle: Handle) -> c_int;
    pub fn PMPI_Win_f2c(number: c_int) -> Handle;
    pub fn PMPI_Win_c2f(handle: Handle) -> c_int;
    pub fn PMPI_File_c2f(handle: Handle) -> c_int;
    pub fn PMPI_Errhandler_c2f(handle: Handle) -> c_int;
    fn PMPI_Comm_size(comm: Handle, size: *mut c_int) -> c_int;
    fn PMPI_Comm_remote_size(comm: Handle, size: *mut c_int) -> c_int;
    fn PMPI_Comm_test_inter(comm: Handle, flag: *mut c_int) -> c_int;
    fn PMPI_Comm_rank(comm: Handle, rank: *mut c_int) -> c_int;
    fn PMPI_Topo_test(comm: Handle, status: *mut c_int) -> c_int;
    fn PMPI_Cartdim_get(comm: Handle, ndims: *mut c_int) -> c_int;
    fn PMPI_Graph_neighbors_count(comm: Handle, rank: c_int, count: *mut c_int) -> c_int;
    fn PMPI_Dist_graph_neighbors_count(
        comm: Handle,
        indegree: *mut c_int,
        outdegree: *mut c_int,
        weighted: *mut c_int,
    ) -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    // Common blocks of the program; their addresses are the constants (MPI 4.1, 2.5.4).
    static mpi_fortran_in_place_: c_int;
    static mpi_fortran_bottom_: c_int;
    static mpi_fortran_status_ignore_: c_int;
    static mpi_fortran_statuses_ignore_: c_int;
}

/// Variable of the C bindings that contains the address of a common block.
///
/// The variable is writable: if an unprotected program opens the MPI library late, the preload
/// library copies the library's own value into it.
#[repr(transparent)]
pub struct Common(UnsafeCell<*const c_int>);

impl Common {
    const fn new(block: *const c_int) -> Common {
        Common(UnsafeCell::new(block))
    }
}

// SAFETY: the address changes at most once, before the program can use it.
unsafe impl Sync for Common {}

// C programs compare a Fortran status with these addresses (MPI 4.1, 19.3.5).
#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: Common = Common::new(&raw const mpi_fortran_status_ignore_);
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: Common = Common::new(&raw const mpi_fortran_statuses_ignore_);
#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Common = Common::new(&raw const mpi_fortran_status_ignore_);
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Common = Common::new(&raw const mpi_fortran_statuses_ignore_);

fn is_at(address: *const c_int, constant: *const c_int) -> bool {
    core::ptr::eq(address, constant)
}

/// Converts the address of a buffer to C: C's constants for `MPI_IN_PLACE` and `MPI_BOTTOM`.
pub fn data(buffer: *mut c_void) -> *mut c_void {
    if is_at(buffer.cast(), &raw const mpi_fortran_in_place_) {
        IN_PLACE
    } else if is_at(buffer.cast(), &raw const mpi_fortran_bottom_) {
        BOTTOM
    } else {
        buffer
    }
}

/// Stores an integer, such as the error code, unless the pointer is null.
pub fn put(variable: *mut c_int, value: c_int) {
    if !variable.is_null() {
        // SAFETY: the standard requires the program to pass a valid pointer.
        unsafe { *variable = value };
    }
}

/// Stores a status, unless the program ignores it.
pub fn put_status(array: *mut c_int, status: &Status) {
    if !is_at(array, &raw const mpi_fortran_status_ignore_) {
        // SAFETY: the standard requires the program to pass an array of this number of integers.
        unsafe { array.copy_from_nonoverlapping(status.0.as_ptr(), STATUS_SIZE) };
    }
}

/// Stores statuses, unless the program ignores them.
pub fn put_statuses(array: *mut c_int, statuses: &[Status]) {
    if is_at(array, &raw const mpi_fortran_statuses_ignore_) {
        return;
    }
    for (i, status) in statuses.iter().enumerate() {
        put_status(array.wrapping_add(i * STATUS_SIZE), status);
    }
}

/// Converts a boolean to a LOGICAL.
///
/// The value for true depends on the compiler of the bindings.
pub fn logical(value: bool) -> c_int {
    static TRUE: AtomicI32 = AtomicI32::new(0);
    if !value {
        return 0;
    }
    match TRUE.load(Ordering::Relaxed) {
        0 => {
            let truth = query_true();
            TRUE.store(truth, Ordering::Relaxed);
            truth
        }
        truth => truth,
    }
}

/// Returns the bindings' value for true, or 1 if it is unknown.
///
/// The value is the flag that MPI_INITIALIZED sets.
fn query_true() -> c_int {
    // SAFETY: dlsym(3) in the default scope; the procedure takes the addresses of a truth value and
    // an error code.
    unsafe {
        let address = dlsym(core::ptr::null_mut(), c"mpi_initialized_".as_ptr());
        if address.is_null() {
            return 1;
        }
        let initialized: unsafe extern "C" fn(*mut c_int, *mut c_int) =
            core::mem::transmute(address);
        let (mut flag, mut ierr) = (0, 0);
        initialized(&mut flag, &mut ierr);
        if flag == 0 { 1 } else { flag }
    }
}

/// Converts `count` datatypes to C.
///
/// MPI ignores the datatypes if the buffer is `MPI_IN_PLACE`; the result is then empty.
///
/// # Safety
/// `list` must contain at least this number of datatypes, unless `buffer` is `MPI_IN_PLACE`.
pub unsafe fn types(
    list: *const c_int,
    buffer: *mut c_void,
    count: impl FnOnce() -> usize,
) -> Vec<Handle> {
    if buffer == IN_PLACE {
        return Vec::new();
    }
    // SAFETY: the caller guarantees that `list` contains this number of datatypes.
    (0..count())
        .map(|i| unsafe { PMPI_Type_f2c(*list.add(i)) })
        .collect()
}

/// Returns the integer that `procedure` stores; 0 if it fails.
///
/// After such a failure, the call for which the integer is needed fails, too.
fn query(procedure: impl FnOnce(*mut c_int) -> c_int) -> c_int {
    let mut value = 0;
    match procedure(&mut value) {
        SUCCESS => value,
        _ => 0,
    }
}

/// Returns the number of processes with which a collective exchanges data.
///
/// For an intercommunicator, these are the processes of the remote group.
pub fn peer_count(comm: Handle) -> usize {
    // SAFETY: queries about a handle of the program.
    let size = unsafe {
        match query(|flag| PMPI_Comm_test_inter(comm, flag)) {
            0 => query(|size| PMPI_Comm_size(comm, size)),
            _ => query(|size| PMPI_Comm_remote_size(comm, size)),
        }
    };
    size as usize
}

/// Returns the numbers of sources and destinations among the neighbours of this process.
fn neighbours(comm: Handle) -> (c_int, c_int) {
    // SAFETY: queries about a handle of the program.
    unsafe {
        match query(|kind| PMPI_Topo_test(comm, kind)) {
            CART => {
                let count = 2 * query(|dims| PMPI_Cartdim_get(comm, dims));
                (count, count)
            }
            GRAPH => {
                let rank = query(|rank| PMPI_Comm_rank(comm, rank));
                let count = query(|count| PMPI_Graph_neighbors_count(comm, rank, count));
                (count, count)
            }
            DIST_GRAPH => {
                let (mut destinations, mut weighted) = (0, 0);
                let sources = query(|sources| {
                    PMPI_Dist_graph_neighbors_count(comm, sources, &mut destinations, &mut weighted)
                });
                (sources, destinations)
            }
            _ => (0, 0),
        }
    }
}

/// Returns the number of neighbours that send to this process.
pub fn source_count(comm: Handle) -> usize {
    neighbours(comm).0 as usize
}

/// Returns the number of neighbours to which this process sends.
pub fn destination_count(comm: Handle) -> usize {
    neighbours(comm).1 as usize
}
