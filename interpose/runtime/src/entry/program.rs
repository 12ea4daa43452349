//! Translation of calls of a program with another ABI ([`understudy_mpi::abi`]).

use crate::calls::HANDLERS;
use crate::calls::runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtComm, real_comm};
use crate::{abi, arch};
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use understudy_mpi::abi::{Abi, Domain, Edge, degrees, foreign_abi, members, rank, table};

/// Edge on which the program calls handlers.
struct ProgramEdge;

/// Returns the function for a slot: the handler, or the function that translates its arguments.
pub(super) fn handler(slot: usize) -> *const () {
    static TABLE: OnceLock<Vec<usize>> = OnceLock::new();
    let handler = HANDLERS[slot].address();
    if foreign_abi().is_none() || handler.is_null() {
        return handler;
    }
    let table = TABLE.get_or_init(|| {
        table::<ProgramEdge>()
            .iter()
            .map(|function| *function as usize)
            .collect()
    });
    match table.get(slot) {
        None | Some(0) => handler,
        Some(&translator) => translator as *const (),
    }
}

impl Edge for ProgramEdge {
    const INWARD: bool = true;

    type Guard = ();

    #[inline]
    fn abi() -> &'static Abi {
        foreign_abi().expect("the program has another ABI")
    }

    #[inline]
    fn handle(kind: HandleKind, handle: u64) -> u64 {
        abi::inward(runtime(), Self::abi(), kind, handle)
    }

    #[inline]
    fn handle_back(kind: HandleKind, handle: u64) -> u64 {
        abi::outward(runtime(), Self::abi(), kind, handle)
    }

    #[inline]
    fn error_for_caller(code: c_int) -> c_int {
        if code == 0 {
            0
        } else {
            Self::abi().foreign(Domain::ErrorCode, code)
        }
    }

    fn error_for_callee(code: c_int) -> c_int {
        Self::abi().canonical(Domain::ErrorCode, code)
    }

    /// True if the program was rewound.
    ///
    /// The program's memory is then that of a cut, and must not be written.
    #[inline]
    fn is_void(_: c_int) -> bool {
        arch::is_rewound()
    }

    fn guard() {}

    #[inline]
    fn callee(slot: usize) -> *const () {
        HANDLERS[slot].address()
    }

    fn members(comm: u64) -> usize {
        members(real_comm(runtime(), VirtComm(comm as *mut c_void)))
    }

    fn rank(comm: u64) -> c_int {
        rank(real_comm(runtime(), VirtComm(comm as *mut c_void)))
    }

    fn degrees(comm: u64) -> (usize, usize) {
        degrees(real_comm(runtime(), VirtComm(comm as *mut c_void)))
    }

    /// Returns the value of a variable of the preload library, which is Open MPI's value.
    fn variable(name: &'static CStr) -> isize {
        match name {
            name if name == c"MPI_UNWEIGHTED" => 2,
            name if name == c"MPI_WEIGHTS_EMPTY" => 3,
            _ => -1,
        }
    }
}
