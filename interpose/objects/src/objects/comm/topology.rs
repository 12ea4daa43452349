//! Virtual topologies (MPI 4.1, chapter 8) as parts of recipes.
#![allow(unsafe_code)]

use crate::errors;
use crate::generated::real;
use std::ffi::c_int;
use understudy_mpi::real_types::{RealComm, RealInfo};
use understudy_mpi::{self as mpi, check};

const CART: c_int = 1;
const GRAPH: c_int = 2;
const DIST_GRAPH: c_int = 3;
const UNWEIGHTED: *const c_int = std::ptr::without_provenance(2);
const WEIGHTS_EMPTY: *const c_int = std::ptr::without_provenance(3);

#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Topology {
    /// No topology.
    #[default]
    None,
    /// Cartesian topology (8.5.1).
    Cart {
        /// Number of processes in each dimension.
        dims: Vec<c_int>,
        /// Values per dimension: nonzero if the dimension is periodic.
        periods: Vec<c_int>,
    },
    /// Graph of which each process has all edges (8.5.3).
    Graph {
        /// Ends of the nodes' neighbours in `edges`, one for each node.
        index: Vec<c_int>,
        edges: Vec<c_int>,
    },
    /// Distributed graph (8.5.4): the neighbours of this process.
    DistGraph {
        /// Ranks from which this process receives.
        sources: Vec<c_int>,
        /// Weights of `sources`, if `weighted`.
        source_weights: Vec<c_int>,
        /// Ranks to which this process sends.
        destinations: Vec<c_int>,
        /// Weights of `destinations`, if `weighted`.
        dest_weights: Vec<c_int>,
        /// True if the edges have weights.
        weighted: bool,
    },
}

/// Returns the number of neighbours that send to `rank` in neighbourhood collectives (8.6).
///
/// Includes `MPI_PROC_NULL`, which is the neighbour beyond the end of a Cartesian dimension. In a
/// distributed graph, `rank` must be this process's.
pub fn source_count(topology: &Topology, rank: usize) -> usize {
    match topology {
        Topology::None => 0,
        Topology::Cart { dims, .. } => 2 * dims.len(),
        Topology::Graph { index, .. } => {
            let end = |node: usize| index.get(node).map_or(0, |&end| end.max(0) as usize);
            end(rank) - rank.checked_sub(1).map_or(0, end)
        }
        Topology::DistGraph { sources, .. } => sources.len(),
    }
}

fn zeros(length: c_int) -> Vec<c_int> {
    vec![0; length.max(0) as usize]
}

impl Topology {
    /// Reads the topology of a real communicator. Local.
    pub fn read(comm: RealComm) -> mpi::Result<Topology> {
        let mut kind = 0;
        // SAFETY: a communicator of the runtime, and each array has the length passed to the
        // library.
        unsafe {
            check(real::PMPI_Topo_test(comm, &mut kind))?;
            match kind {
                CART => {
                    let mut length = 0;
                    check(real::PMPI_Cartdim_get(comm, &mut length))?;
                    let (mut dims, mut periods, mut own) =
                        (zeros(length), zeros(length), zeros(length));
                    let (d, p, o) = (dims.as_mut_ptr(), periods.as_mut_ptr(), own.as_mut_ptr());
                    check(real::PMPI_Cart_get(comm, length, d, p, o))?;
                    Ok(Topology::Cart { dims, periods })
                }
                GRAPH => {
                    let (mut nodes, mut count) = (0, 0);
                    check(real::PMPI_Graphdims_get(comm, &mut nodes, &mut count))?;
                    let (mut index, mut edges) = (zeros(nodes), zeros(count));
                    let (i, e) = (index.as_mut_ptr(), edges.as_mut_ptr());
                    check(real::PMPI_Graph_get(comm, nodes, count, i, e))?;
                    Ok(Topology::Graph { index, edges })
                }
                DIST_GRAPH => {
                    let (mut indegree, mut outdegree, mut weighted) = (0, 0, 0);
                    let counts = (&mut indegree, &mut outdegree, &mut weighted);
                    check(real::PMPI_Dist_graph_neighbors_count(
                        comm, counts.0, counts.1, counts.2,
                    ))?;
                    let (mut sources, mut source_weights) = (zeros(indegree), zeros(indegree));
                    let (mut destinations, mut dest_weights) = (zeros(outdegree), zeros(outdegree));
                    check(real::PMPI_Dist_graph_neighbors(
                        comm,
                        indegree,
                        sources.as_mut_ptr(),
                        source_weights.as_mut_ptr(),
                        outdegree,
                        destinations.as_mut_ptr(),
                        dest_weights.as_mut_ptr(),
                    ))?;
                    let weighted = weighted != 0;
                    Ok(Topology::DistGraph {
                        sources,
                        source_weights,
                        destinations,
                        dest_weights,
                        weighted,
                    })
                }
                _ => Ok(Topology::None),
            }
        }
    }

    /// Creates a communicator with this topology and the members of `from`.
    ///
    /// The members keep their order and their ranks. Collective. Without a topology, `new` is
    /// `from`. `info` is the null handle.
    pub fn apply(&self, info: RealInfo, from: RealComm, new: &mut RealComm) -> c_int {
        let weights = |weights: &[c_int], weighted: bool| match (weighted, weights.is_empty()) {
            (false, _) => UNWEIGHTED,
            (true, true) => WEIGHTS_EMPTY,
            (true, false) => weights.as_ptr(),
        };
        // SAFETY: a communicator of the runtime; the arrays have the lengths that are passed.
        unsafe {
            match self {
                Topology::None => {
                    *new = from;
                    errors::SUCCESS
                }
                Topology::Cart { dims, periods } => real::PMPI_Cart_create(
                    from,
                    dims.len() as c_int,
                    dims.as_ptr(),
                    periods.as_ptr(),
                    0,
                    new,
                ),
                Topology::Graph { index, edges } => real::PMPI_Graph_create(
                    from,
                    index.len() as c_int,
                    index.as_ptr(),
                    edges.as_ptr(),
                    0,
                    new,
                ),
                Topology::DistGraph {
                    sources,
                    source_weights,
                    destinations,
                    dest_weights,
                    weighted,
                } => real::PMPI_Dist_graph_create_adjacent(
                    from,
                    sources.len() as c_int,
                    sources.as_ptr(),
                    weights(source_weights, *weighted),
                    destinations.len() as c_int,
                    destinations.as_ptr(),
                    weights(dest_weights, *weighted),
                    info,
                    0,
                    new,
                ),
            }
        }
    }
}
