//! Constructors of virtual topologies (MPI 4.1, chapter 8). What they make is read back from the real communicator, so
//! the recipe has the ranks as the real library has ordered them. Inquiries are generated: they are local.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::comm::construct;
use crate::calls::runtime;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtInfo, real_comm, real_info};
use crate::raise::finish;
use std::ffi::c_int;

pub unsafe extern "C" fn MPI_Cart_create(
    comm_old: VirtComm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    construct!(
        rt,
        Proc::MPI_Cart_create,
        comm_old,
        comm_cart,
        // SAFETY: a communicator and the program's arrays.
        |new| unsafe {
            real::PMPI_Cart_create(real_comm(rt, comm_old), ndims, dims, periods, reorder, new)
        }
    )
}

pub unsafe extern "C" fn MPI_Cart_sub(
    comm: VirtComm,
    remain_dims: *const c_int,
    newcomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    // SAFETY: a communicator and the program's array.
    construct!(rt, Proc::MPI_Cart_sub, comm, newcomm, |new| unsafe {
        real::PMPI_Cart_sub(real_comm(rt, comm), remain_dims, new)
    })
}

pub unsafe extern "C" fn MPI_Graph_create(
    comm_old: VirtComm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    construct!(
        rt,
        Proc::MPI_Graph_create,
        comm_old,
        comm_graph,
        // SAFETY: a communicator and the program's arrays.
        |new| unsafe {
            real::PMPI_Graph_create(real_comm(rt, comm_old), nnodes, index, edges, reorder, new)
        }
    )
}

pub unsafe extern "C" fn MPI_Dist_graph_create(
    comm_old: VirtComm,
    n: c_int,
    nodes: *const c_int,
    degrees: *const c_int,
    targets: *const c_int,
    weights: *const c_int,
    info: VirtInfo,
    reorder: c_int,
    newcomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    construct!(
        rt,
        Proc::MPI_Dist_graph_create,
        comm_old,
        newcomm,
        // SAFETY: a communicator and the program's arrays; the real library checks the info object.
        |new| unsafe {
            let (comm, info) = (real_comm(rt, comm_old), real_info(rt, info));
            real::PMPI_Dist_graph_create(
                comm, n, nodes, degrees, targets, weights, info, reorder, new,
            )
        }
    )
}

pub unsafe extern "C" fn MPI_Dist_graph_create_adjacent(
    comm_old: VirtComm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: VirtInfo,
    reorder: c_int,
    comm_dist_graph: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    let constructor = |new: &mut _| {
        let (comm, info) = (real_comm(rt, comm_old), real_info(rt, info));
        let (from, to) = (
            (indegree, sources, sourceweights),
            (outdegree, destinations, destweights),
        );
        // SAFETY: a communicator and the program's arrays; the real library checks the info object.
        unsafe {
            real::PMPI_Dist_graph_create_adjacent(
                comm, from.0, from.1, from.2, to.0, to.1, to.2, info, reorder, new,
            )
        }
    };
    construct!(
        rt,
        Proc::MPI_Dist_graph_create_adjacent,
        comm_old,
        comm_dist_graph,
        constructor
    )
}

/// Local in Open MPI.
pub unsafe extern "C" fn MPI_Cart_map(
    comm: VirtComm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    let rt = runtime();
    // SAFETY: the real library checks its arguments.
    let rc = unsafe { real::PMPI_Cart_map(real_comm(rt, comm), ndims, dims, periods, newrank) };
    finish(rt, Proc::MPI_Cart_map, rc, Some(comm))
}

/// Local in Open MPI.
pub unsafe extern "C" fn MPI_Graph_map(
    comm: VirtComm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    let rt = runtime();
    // SAFETY: the real library checks its arguments.
    let rc = unsafe { real::PMPI_Graph_map(real_comm(rt, comm), nnodes, index, edges, newrank) };
    finish(rt, Proc::MPI_Graph_map, rc, Some(comm))
}
