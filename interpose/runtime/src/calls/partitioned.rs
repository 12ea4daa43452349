//! Partitioned communication (MPI 4.1, chapter 4), by requests with recipes.
//!
//! A cut is taken only when both ends of each message have started it equally often, and the
//! message is complete.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use super::arguments::outcome;
use super::persistent_collective::enter_recorded;
use crate::Runtime;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::finish;
use crate::errors::{ERR_ARG, ERR_COMM, ERR_REQUEST, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtInfo, VirtRequest};
use crate::objects::comm;
use crate::requests::{
    self, Argument, RequestIdentity, RequestKind, RequestRecipe, partitioned_identity,
};
use crate::{cut, posting, world};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::RealRequest;

/// Creates an inactive request, and records its recipe.
///
/// # Safety
/// `request` is the program's address for the handle.
unsafe fn init(
    rt: &Runtime,
    procedure: Proc,
    comm: VirtComm,
    (peer, tag): (c_int, c_int),
    arguments: Vec<Argument>,
    request: *mut VirtRequest,
) -> c_int {
    let Some(uid) = comm::get(rt, comm).map(|comm| comm.uid) else {
        return finish(rt, procedure, ERR_COMM, None);
    };
    let (is_send, me) = (procedure == Proc::MPI_Psend_init, world::worker(rt));
    let worker = comm::worker_of(rt, comm, peer);
    let ends = match worker {
        Some(_) if !is_send => [worker, Some(me)],
        _ => [Some(me), worker],
    };
    let mut recipe = RequestRecipe {
        slot: procedure.slot() as u16,
        comm: comm.0 as u64,
        identity: RequestIdentity::default(),
        members: if worker.is_some() { 2 } else { 1 },
        share: 0,
        arguments,
    };
    let (real, library_data, rc) = posting::create_recorded(rt, &recipe);
    let rc = attempt!(rt, rc);
    if rc == SUCCESS && real.0.is_null() {
        return finish(rt, procedure, ERR_ARG, Some(comm));
    }
    if rc == SUCCESS {
        // The hash of the ends does not depend on the number.
        let ((pair, _), _) = partitioned_identity(uid, ends, tag, 0);
        let number = requests::next_partitioned(rt, pair, is_send);
        let (identity, share) = partitioned_identity(uid, ends, tag, number);
        recipe.identity = identity;
        // A request with MPI_PROC_NULL has no other end that could start it.
        recipe.share = match (worker, is_send) {
            (None, _) => 0,
            (Some(_), true) => share,
            (Some(_), false) => share.wrapping_neg(),
        };
        // SAFETY: MPI requires the program's address for the handle to be valid.
        unsafe { enter_recorded(rt, recipe, real, library_data, request) };
    }
    finish(rt, procedure, rc, Some(comm))
}

macro_rules! inits {
    ($($name:ident, $pointer:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub unsafe extern "C" fn $name(
            buf: $pointer, partitions: c_int, count: i64, datatype: VirtDatatype, peer: c_int,
            tag: c_int, comm: VirtComm, info: VirtInfo, request: *mut VirtRequest,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            let arguments = vec![
                Argument::Word(buf as u64),
                Argument::Word(partitions as u64),
                Argument::Word(count as u64),
                Argument::Datatype(datatype.0 as u64),
                Argument::Word(peer as u64),
                Argument::Word(tag as u64),
                Argument::Comm(comm.0 as u64),
                Argument::Info(info.0 as u64),
            ];
            // SAFETY: MPI requires the program's argument to be valid.
            unsafe { init(rt, Proc::$name, comm, (peer, tag), arguments, request) }
        }
    )*};
}

inits! {
    MPI_Psend_init, *const c_void;
    MPI_Precv_init, *mut c_void;
}

/// Returns the index of a request that this procedure has created.
fn request_made_by(rt: &Runtime, request: VirtRequest, procedure: Proc) -> Option<u32> {
    let index = requests::index(rt, request)?;
    let RequestKind::Recorded(number) = requests::get(rt, index)?.kind else {
        return None;
    };
    let slot = requests::recipe(rt, number)?.slot;
    (u32::from(slot) == procedure.slot()).then_some(index)
}

/// Marks partitions of an active message as ready.
fn mark_ready(
    rt: &Runtime,
    procedure: Proc,
    request: VirtRequest,
    count: c_int,
    call: impl FnOnce(RealRequest) -> c_int,
) -> c_int {
    let index = request_made_by(rt, request, Proc::MPI_Psend_init)
        .filter(|&index| requests::is_active(rt, index));
    let Some(index) = index else {
        return finish(rt, procedure, ERR_REQUEST, None);
    };
    let rc = attempt!(rt, call(requests::real_of(rt, index)));
    if rc == SUCCESS {
        requests::record_ready(rt, index, count.max(0) as u64);
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Pready(partition: c_int, request: VirtRequest) -> c_int {
    let rt = runtime();
    // SAFETY: a partitioned request that has been started.
    mark_ready(rt, Proc::MPI_Pready, request, 1, |real| unsafe {
        real::PMPI_Pready(partition, real)
    })
}

pub unsafe extern "C" fn MPI_Pready_range(low: c_int, high: c_int, request: VirtRequest) -> c_int {
    let rt = runtime();
    // SAFETY: a partitioned request that has been started.
    mark_ready(
        rt,
        Proc::MPI_Pready_range,
        request,
        high - low + 1,
        |real| unsafe { real::PMPI_Pready_range(low, high, real) },
    )
}

pub unsafe extern "C" fn MPI_Pready_list(
    length: c_int,
    list: *mut c_int,
    request: VirtRequest,
) -> c_int {
    let rt = runtime();
    // SAFETY: a partitioned request that has been started, and the program's array.
    mark_ready(rt, Proc::MPI_Pready_list, request, length, |real| unsafe {
        real::PMPI_Pready_list(length, list, real)
    })
}

/// `MPI_Parrived`: true for all partitions of a message that is complete or inactive.
pub unsafe extern "C" fn MPI_Parrived(
    request: VirtRequest,
    partition: c_int,
    flag: *mut c_int,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Parrived;
    outcome!(cut::here(rt));
    let Some(index) = request_made_by(rt, request, Proc::MPI_Precv_init) else {
        return finish(rt, procedure, ERR_REQUEST, None);
    };
    let mut arrived = 1;
    let mut rc = SUCCESS;
    if requests::is_active(rt, index) {
        // SAFETY: a partitioned request that has been started.
        rc = attempt!(rt, unsafe {
            real::PMPI_Parrived(requests::real_of(rt, index), partition, &mut arrived)
        });
    }
    if rc == SUCCESS {
        // SAFETY: MPI requires the program's argument to be valid.
        unsafe { flag.write(arrived) };
    }
    finish(rt, procedure, rc, None)
}
