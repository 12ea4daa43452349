//! First collectives on each communicator, on which the order of MPICH's reductions depends.
//!
//! On a node MPICH first reduces by messages, and from the fifth time on in shared memory, in
//! another order (`MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD`). A floating-point sum may then have
//! another value. On a rebuilt communicator the first collectives are therefore repeated, with data
//! of the runtime.
#![allow(unsafe_code)]

use super::comm_entries::{get, get_mut};
use super::communicator::Comm;
use crate::Runtime;
use crate::abi;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtOp};
use crate::objects::op;
use std::sync::OnceLock;
use understudy_mpi::abi::object;
use understudy_mpi::bytes::byte;
use understudy_mpi::real_types::{RealComm, RealOp};
use understudy_mpi::{self as mpi, check};
use understudy_policy::communicator_plan::CountedCollective;

/// Returns the number of first collectives of each kind that MPICH counts.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    let set = || {
        std::env::var("MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD")
            .ok()?
            .parse()
            .ok()
    };
    *LIMIT.get_or_init(|| set().unwrap_or(5))
}

/// Records a collective procedure, if it is one of the first that MPICH counts.
///
/// MPICH counts neither collectives without data nor those with operators that do not commute.
#[inline]
pub fn record(rt: &Runtime, comm: VirtComm, procedure: Proc, has_data: bool, op: Option<VirtOp>) {
    if abi::is_foreign_abi() && has_data && op.is_none_or(|op| op::commutes(rt, op)) {
        record_counted(rt, comm, procedure);
    }
}

fn record_counted(rt: &Runtime, comm: VirtComm, procedure: Proc) {
    let counted = match procedure {
        Proc::MPI_Barrier => CountedCollective::Barrier,
        Proc::MPI_Bcast => CountedCollective::Bcast,
        Proc::MPI_Reduce => CountedCollective::Reduce,
        Proc::MPI_Allreduce => CountedCollective::Allreduce,
        _ => return,
    };
    let is_counted = |comm: &Comm| {
        let recorded = comm
            .first_collectives
            .iter()
            .filter(|&&first| first == counted);
        comm.remote.is_none() && recorded.count() < limit()
    };
    if get(rt, comm).is_some_and(|comm| is_counted(&comm))
        && let Some(mut comm) = get_mut(rt, comm)
    {
        comm.first_collectives.push(counted);
    }
}

/// Repeats the recorded collectives. Collective.
///
/// # Errors
/// Fails if a real procedure fails.
pub(super) fn repeat(comm: RealComm, firsts: &[CountedCollective]) -> mpi::Result<()> {
    let (or, own, mut all) = (RealOp(object(c"ompi_mpi_op_bor")), 0_u8, 0_u8);
    let (from, to) = ((&raw const own).cast(), (&raw mut all).cast());
    // SAFETY: one byte in each buffer.
    firsts.iter().try_for_each(|first| unsafe {
        check(match first {
            CountedCollective::Barrier => real::PMPI_Barrier(comm),
            CountedCollective::Bcast => real::PMPI_Bcast(to, 1, byte(), 0, comm),
            CountedCollective::Reduce => real::PMPI_Reduce(from, to, 1, byte(), or, 0, comm),
            CountedCollective::Allreduce => real::PMPI_Allreduce(from, to, 1, byte(), or, comm),
        })
    })
}
