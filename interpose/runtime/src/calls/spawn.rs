//! Processes that the program spawns (MPI 4.1, 11.8).
//!
//! Spawned processes run without the runtime, in PMIx namespaces of their own, and are connected by
//! the library. Their state cannot be saved, so no cut is taken while a communicator contains them.
//! A failure therefore rolls the program back to a cut before the call: the node manager kills the
//! spawned processes, and the program spawns them once more. A failure no longer affects spawned
//! processes that have been disconnected, once another checkpoint is committed.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::comm::construct_by_some;
use crate::Runtime;
use crate::calls::runtime;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtInfo, real_comm, real_info};
use crate::objects::{comm, dynamic};
use crate::{cut, journal, reinit, world};
use std::ffi::{c_char, c_int};
use understudy_mpi::real_types::{RealComm, RealInfo};

/// Calls the real spawn procedure (`constructor`), and registers the intercommunicator that it
/// creates.
unsafe fn spawn(
    rt: &Runtime,
    procedure: Proc,
    root: c_int,
    (comm, intercomm): (VirtComm, *mut VirtComm),
    constructor: impl FnOnce(&mut RealComm) -> c_int,
) -> c_int {
    if cut::together(rt, comm).is_err() {
        // The program was rewound, so the return code is not used.
        return 0;
    }
    // A replay would have no spawned processes.
    journal::drop_recording(rt);
    let number = {
        let mut dynamic = dynamic::get_mut(rt);
        dynamic.spawns += 1;
        dynamic.spawns
    };
    if comm::rank_and_size(rt, comm).is_some_and(|(rank, _)| rank == root) {
        reinit::report_spawn(world::worker(rt), number);
    }
    construct_by_some!(rt, procedure, comm, intercomm, constructor)
}

pub unsafe extern "C" fn MPI_Comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: VirtInfo,
    root: c_int,
    comm: VirtComm,
    intercomm: *mut VirtComm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the root's arguments to be valid, and ignores those of other ranks.
    unsafe {
        spawn(rt, Proc::MPI_Comm_spawn, root, (comm, intercomm), |new| {
            let (info, local) = (real_info(rt, info), real_comm(rt, comm));
            real::PMPI_Comm_spawn(
                command,
                argv,
                maxprocs,
                info,
                root,
                local,
                new,
                array_of_errcodes,
            )
        })
    }
}

pub unsafe extern "C" fn MPI_Comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const VirtInfo,
    root: c_int,
    comm: VirtComm,
    intercomm: *mut VirtComm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    let rt = runtime();
    // Only the root's arguments are significant.
    let is_root = comm::rank_and_size(rt, comm).is_some_and(|(rank, _)| rank == root);
    let infos: Vec<RealInfo> = match is_root && !array_of_info.is_null() && count > 0 {
        // SAFETY: MPI requires the array of the root to have `count` handles.
        true => unsafe { std::slice::from_raw_parts(array_of_info, count as usize) }
            .iter()
            .map(|&info| real_info(rt, info))
            .collect(),
        false => Vec::new(),
    };
    // SAFETY: MPI requires the root's arguments to be valid, and ignores those of other ranks.
    unsafe {
        spawn(
            rt,
            Proc::MPI_Comm_spawn_multiple,
            root,
            (comm, intercomm),
            |new| {
                real::PMPI_Comm_spawn_multiple(
                    count,
                    array_of_commands,
                    array_of_argv,
                    array_of_maxprocs,
                    infos.as_ptr(),
                    root,
                    real_comm(rt, comm),
                    new,
                    array_of_errcodes,
                )
            },
        )
    }
}
