//! Edge between the runtime and a real library with another ABI.
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::arguments::read;
use super::edges::{FOREIGN, FOREIGN_CALLS, table};
use super::foreign_abi::{Abi, Domain, HANDLE, MPICH, STANDARD};
use crate::call::{self, Callback};
use crate::library;
use crate::procedures::{PROCEDURES, real};
use crate::real_types::{HandleKind, RealComm, RealDatatype, UNDEFINED};
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// ABI of the library, or `None` for Open MPI's.
static ABI: OnceLock<Option<&'static Abi>> = OnceLock::new();

/// Returns the ABI of the library, or `None` for Open MPI's.
#[inline]
pub fn foreign_abi() -> Option<&'static Abi> {
    ABI.get().copied().flatten()
}

/// Detects the ABI of the opened library.
fn detect() -> Option<&'static Abi> {
    if !library::symbol(c"ompi_mpi_comm_world").is_null() {
        return None;
    }
    // MPICH has a variable of this name; in the standard ABI, it is a constant of the header.
    match library::symbol(c"MPI_UNWEIGHTED").is_null() {
        true => Some(&STANDARD),
        false => Some(&MPICH),
    }
}

/// Inserts the translating functions between runtime and library if the ABIs differ.
pub(crate) fn connect() {
    let abi = *ABI.get_or_init(detect);
    if abi.is_none() {
        return;
    }
    let edge = table::<LibraryEdge>();
    for ((called, real), translate) in PROCEDURES.iter().zip(&FOREIGN).zip(edge) {
        real.find();
        if !translate.is_null() && real.is_found() {
            called.set(translate.cast_mut().cast());
        }
    }
}

/// Returns the library's handle of a predefined object, by Open MPI's name of the object.
///
/// Null if the library or its ABI does not have the object.
pub fn object(symbol: &CStr) -> *mut c_void {
    match foreign_abi() {
        None => library::symbol(symbol),
        Some(abi) => {
            let predefined = abi.handles.iter().find(|handle| handle.symbol == symbol);
            predefined.map_or(std::ptr::null_mut(), |handle| {
                handle.value as usize as *mut c_void
            })
        }
    }
}

/// Returns the datatype that the library passes to a reduction function.
///
/// A reduction function receives the address of a handle, which has the size of the library's
/// handles.
///
/// # Safety
/// `address` must be the argument that the library passes to a reduction function.
pub unsafe fn datatype_at(address: *const RealDatatype) -> RealDatatype {
    let width = foreign_abi().map_or(HANDLE, |abi| abi.width(HandleKind::Datatype));
    // SAFETY: the caller guarantees that `address` is that of a handle of the library.
    RealDatatype(unsafe { read(address.cast(), width) } as usize as *mut c_void)
}

/// Edge with the runtime as the caller and the library as the callee.
pub struct LibraryEdge;

/// Returns the class of an error code of the library.
///
/// The class of a class is the class itself. This function recognises classes without a call of the
/// library: MPICH, with the standard ABI, does not recognise the tool interface's classes.
fn class_of(code: c_int) -> c_int {
    if LibraryEdge::abi().has(Domain::ErrorCode, code) {
        return code;
    }
    let slot = FOREIGN
        .iter()
        .position(|procedure| procedure.name() == c"PMPI_Error_class");
    let mut class = code;
    if let Some(slot) = slot {
        // SAFETY: the procedure of that slot, which has this type in any library.
        unsafe {
            let function: unsafe extern "C" fn(c_int, *mut c_int) -> c_int =
                std::mem::transmute(FOREIGN_CALLS[slot]);
            function(code, &mut class);
        }
    }
    class
}

impl Edge for LibraryEdge {
    const INWARD: bool = false;

    /// The runtime's call can be abandoned inside the library, but not inside the edge.
    type Guard = Callback;

    #[inline]
    fn abi() -> &'static Abi {
        foreign_abi().expect("the library has another ABI")
    }

    #[inline]
    fn handle(_: HandleKind, handle: u64) -> u64 {
        handle
    }

    #[inline]
    fn handle_back(_: HandleKind, handle: u64) -> u64 {
        handle
    }

    #[inline]
    fn error_for_caller(code: c_int) -> c_int {
        match code {
            0 => 0,
            code => Self::abi().canonical(Domain::ErrorCode, class_of(code)),
        }
    }

    fn error_for_callee(code: c_int) -> c_int {
        Self::abi().foreign(Domain::ErrorCode, code)
    }

    #[inline]
    fn is_void(code: c_int) -> bool {
        code == call::ABANDONED && call::is_over()
    }

    #[inline]
    fn guard() -> Callback {
        Callback::new()
    }

    #[inline]
    fn callee(slot: usize) -> *const () {
        FOREIGN_CALLS[slot] as *const ()
    }

    fn members(comm: u64) -> usize {
        members(RealComm(comm as *mut c_void))
    }

    fn rank(comm: u64) -> c_int {
        rank(RealComm(comm as *mut c_void))
    }

    fn degrees(comm: u64) -> (usize, usize) {
        degrees(RealComm(comm as *mut c_void))
    }

    fn variable(name: &'static CStr) -> isize {
        variable(name)
    }
}

/// Returns the number of processes of a communicator, or of its remote group.
pub fn members(comm: RealComm) -> usize {
    let (mut is_inter, mut size) = (0, 0);
    // SAFETY: local queries; the library checks the communicator.
    unsafe {
        real::PMPI_Comm_test_inter(comm, &mut is_inter);
        match is_inter {
            0 => real::PMPI_Comm_size(comm, &mut size),
            _ => real::PMPI_Comm_remote_size(comm, &mut size),
        };
    }
    usize::try_from(size).unwrap_or(0)
}

/// Returns the rank of this process in a communicator.
pub fn rank(comm: RealComm) -> c_int {
    let mut rank = UNDEFINED;
    // SAFETY: a local query; the library checks the communicator.
    unsafe { real::PMPI_Comm_rank(comm, &mut rank) };
    rank
}

/// Returns the numbers of neighbours of this process: sources and destinations (MPI 4.1, 8.6).
pub fn degrees(comm: RealComm) -> (usize, usize) {
    const CART: c_int = 1;
    const GRAPH: c_int = 2;
    let (mut topology, mut sources, mut destinations, mut rank) = (UNDEFINED, 0, 0, 0);
    // SAFETY: local queries; the library checks the communicator.
    unsafe {
        real::PMPI_Topo_test(comm, &mut topology);
        match topology {
            UNDEFINED => {}
            CART => {
                real::PMPI_Cartdim_get(comm, &mut sources);
                (sources, destinations) = (2 * sources, 2 * sources);
            }
            GRAPH => {
                real::PMPI_Comm_rank(comm, &mut rank);
                real::PMPI_Graph_neighbors_count(comm, rank, &mut sources);
                destinations = sources;
            }
            _ => {
                let mut weighted = 0;
                real::PMPI_Dist_graph_neighbors_count(
                    comm,
                    &mut sources,
                    &mut destinations,
                    &mut weighted,
                );
            }
        }
    }
    let count = |number: c_int| usize::try_from(number).unwrap_or(0);
    (count(sources), count(destinations))
}

/// Returns a limit of the program's ABI, such as `MPI_MAX_OBJECT_NAME`.
///
/// The program always has the ABI of its library. Buffers of the runtime have space for the longest
/// text of any ABI, so texts are never cut off before they reach the program.
pub fn limit(name: &str) -> usize {
    let find = |abi: &'static Abi| abi.limits.iter().find(|limit| limit.0 == name);
    let limit = match foreign_abi() {
        Some(abi) => find(abi).map(|limit| limit.2),
        None => find(&MPICH).map(|limit| limit.1),
    };
    limit.unwrap_or(256)
}

/// Values of variables that have been looked up, in the order of `NAMES`.
static VARIABLES: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Returns the value of a variable of the library, which is looked up once.
fn variable(name: &'static CStr) -> isize {
    const NAMES: [&CStr; 3] = [
        c"MPI_UNWEIGHTED",
        c"MPI_WEIGHTS_EMPTY",
        c"MPI_T_PVAR_ALL_HANDLES",
    ];
    let index = NAMES
        .iter()
        .position(|listed| *listed == name)
        .expect("a listed variable");
    match VARIABLES[index].load(Relaxed) {
        0 => {
            let address = library::symbol(name).cast::<usize>();
            let value = match address.is_null() {
                true => 0,
                // SAFETY: a variable of the library, which is a pointer.
                false => unsafe { address.read() },
            };
            VARIABLES[index].store(value, Relaxed);
            value as isize
        }
        value => value as isize,
    }
}
