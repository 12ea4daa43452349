//! Groups (MPI 4.1, 7.3).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::Runtime;
use crate::calls::runtime;
use crate::error_handling::handle_error;
use crate::errors::{ERR_ARG, ERR_COMM, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtGroup};
use crate::objects::comm;
use crate::objects::group::{self, ERR_GROUP};
use crate::world;
use std::ffi::c_int;
use understudy_mpi::real_types::UNDEFINED;
use understudy_numbers::Worker;

/// Completes a constructor.
///
/// # Safety
/// `newgroup` is the program's address for the handle, or null.
unsafe fn constructed(
    rt: &Runtime,
    procedure: Proc,
    newgroup: *mut VirtGroup,
    (members, session): (Result<Vec<Worker>, c_int>, u64),
    comm: Option<VirtComm>,
) -> c_int {
    if newgroup.is_null() {
        return handle_error(rt, procedure, ERR_ARG, comm);
    }
    match members.and_then(|members| group::create(rt, members, session)) {
        Ok(handle) => {
            // SAFETY: null is excluded above; MPI requires any other address to be valid.
            unsafe { *newgroup = handle };
            SUCCESS
        }
        Err(rc) => handle_error(rt, procedure, rc, comm),
    }
}

/// Returns an array of the program with `count` elements.
///
/// # Safety
/// The array is valid, or `first` is null.
unsafe fn array<'a, T>(first: *const T, count: c_int) -> Result<&'a [T], c_int> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: the caller passes an array of `count` elements, which is not null.
        Ok(count) if !first.is_null() => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
        _ => Err(ERR_ARG),
    }
}

fn members_of(rt: &Runtime, group: VirtGroup) -> Result<Vec<Worker>, c_int> {
    group::members(rt, group).ok_or(ERR_GROUP)
}

/// Implements `MPI_Comm_group` and `MPI_Comm_remote_group`.
///
/// # Safety
/// `group` is the program's address for the handle, or null.
pub(super) unsafe fn of_comm(
    rt: &Runtime,
    procedure: Proc,
    members: fn(&understudy_objects::Runtime, VirtComm) -> Option<Vec<Worker>>,
    comm: VirtComm,
    group: *mut VirtGroup,
) -> c_int {
    let members = members(rt, comm).ok_or(ERR_COMM);
    let made = (members, comm::session(rt, comm));
    // SAFETY: `group` is the program's address for the handle, or null.
    unsafe { constructed(rt, procedure, group, made, Some(comm)) }
}

/// Completes a query, and writes its answer.
///
/// # Safety
/// `result` is the program's address for the answer, or null.
unsafe fn finish_query(
    rt: &Runtime,
    procedure: Proc,
    result: *mut c_int,
    answer: Result<c_int, c_int>,
) -> c_int {
    match answer {
        Ok(_) if result.is_null() => handle_error(rt, procedure, ERR_ARG, None),
        Ok(answer) => {
            // SAFETY: null is excluded above; MPI requires any other address to be valid.
            unsafe { *result = answer };
            SUCCESS
        }
        Err(rc) => handle_error(rt, procedure, rc, None),
    }
}

pub unsafe extern "C" fn MPI_Group_size(group: VirtGroup, size: *mut c_int) -> c_int {
    let rt = runtime();
    let answer = members_of(rt, group).map(|members| members.len() as c_int);
    // SAFETY: MPI requires the program's address for the result to be valid.
    unsafe { finish_query(rt, Proc::MPI_Group_size, size, answer) }
}

pub unsafe extern "C" fn MPI_Group_rank(group: VirtGroup, rank: *mut c_int) -> c_int {
    let rt = runtime();
    let me = world::worker(rt);
    let own_rank = |members: Vec<Worker>| members.iter().position(|&member| member == me);
    let answer = members_of(rt, group)
        .map(|members| own_rank(members).map_or(UNDEFINED, |rank| rank as c_int));
    // SAFETY: MPI requires the program's address for the result to be valid.
    unsafe { finish_query(rt, Proc::MPI_Group_rank, rank, answer) }
}

pub unsafe extern "C" fn MPI_Group_compare(
    group1: VirtGroup,
    group2: VirtGroup,
    result: *mut c_int,
) -> c_int {
    let rt = runtime();
    let answer = members_of(rt, group1)
        .and_then(|first| Ok(group::compare(&first, &members_of(rt, group2)?) as c_int));
    // SAFETY: MPI requires the program's address for the result to be valid.
    unsafe { finish_query(rt, Proc::MPI_Group_compare, result, answer) }
}

pub unsafe extern "C" fn MPI_Group_translate_ranks(
    group1: VirtGroup,
    n: c_int,
    ranks1: *const c_int,
    group2: VirtGroup,
    ranks2: *mut c_int,
) -> c_int {
    let rt = runtime();
    let translated = members_of(rt, group1).and_then(|first| {
        // SAFETY: MPI requires the program's array to have `n` ranks.
        let ranks = unsafe { array(ranks1, n)? };
        group::translate(&first, ranks, &members_of(rt, group2)?)
    });
    match translated {
        Ok(ranks) if ranks2.is_null() && !ranks.is_empty() => {
            handle_error(rt, Proc::MPI_Group_translate_ranks, ERR_ARG, None)
        }
        Ok(ranks) => {
            // SAFETY: null is excluded above; MPI requires the program's array to have this length.
            unsafe { ranks2.copy_from_nonoverlapping(ranks.as_ptr(), ranks.len()) };
            SUCCESS
        }
        Err(rc) => handle_error(rt, Proc::MPI_Group_translate_ranks, rc, None),
    }
}

type Selection = fn(&[Worker], &[c_int]) -> Result<Vec<Worker>, c_int>;

/// Implements `MPI_Group_incl` and `MPI_Group_excl`.
///
/// # Safety
/// The arguments are the program's.
pub(super) unsafe fn select(
    rt: &Runtime,
    procedure: Proc,
    selection: Selection,
    group: VirtGroup,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut VirtGroup,
) -> c_int {
    // SAFETY: MPI requires the program's array and address to be valid.
    unsafe {
        let members =
            members_of(rt, group).and_then(|members| selection(&members, array(ranks, n)?));
        constructed(
            rt,
            procedure,
            newgroup,
            (members, group::session(rt, group)),
            None,
        )
    }
}

/// Implements `MPI_Group_range_incl` and `MPI_Group_range_excl`.
///
/// # Safety
/// The arguments are the program's.
pub(super) unsafe fn select_ranges(
    rt: &Runtime,
    procedure: Proc,
    selection: Selection,
    group: VirtGroup,
    n: c_int,
    ranges: *const [c_int; 3],
    newgroup: *mut VirtGroup,
) -> c_int {
    // SAFETY: MPI requires the program's array and address to be valid.
    unsafe {
        let members = members_of(rt, group).and_then(|members| {
            let ranks = group::expand(array(ranges, n)?, members.len())?;
            selection(&members, &ranks)
        });
        let made = (members, group::session(rt, group));
        constructed(rt, procedure, newgroup, made, None)
    }
}

/// Implements `MPI_Group_union` and its variants.
///
/// # Safety
/// The arguments are the program's.
pub(super) unsafe fn combine(
    rt: &Runtime,
    procedure: Proc,
    operation: fn(&[Worker], &[Worker]) -> Vec<Worker>,
    group1: VirtGroup,
    group2: VirtGroup,
    newgroup: *mut VirtGroup,
) -> c_int {
    let members =
        members_of(rt, group1).and_then(|first| Ok(operation(&first, &members_of(rt, group2)?)));
    // SAFETY: MPI requires the program's address for the handle to be valid.
    unsafe {
        constructed(
            rt,
            procedure,
            newgroup,
            (members, group::session(rt, group1)),
            None,
        )
    }
}

/// `MPI_Group_free`: `MPI_GROUP_EMPTY`, which a constructor may return, may also be freed.
pub unsafe extern "C" fn MPI_Group_free(group: *mut VirtGroup) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Group_free;
    if group.is_null() {
        return handle_error(rt, procedure, ERR_ARG, None);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let handle = unsafe { *group };
    let rc = if handle == group::empty_handle(rt) {
        SUCCESS
    } else {
        group::free(rt, handle)
    };
    if rc != SUCCESS {
        return handle_error(rt, procedure, rc, None);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    unsafe { *group = group::null_handle(rt) };
    SUCCESS
}
