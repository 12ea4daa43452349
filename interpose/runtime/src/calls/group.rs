//! Groups (MPI 4.1, 7.3).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::calls::runtime;
use crate::errors::{ERR_ARG, ERR_COMM, SUCCESS};
use crate::generated::{HandleKind, Proc, real};
use crate::handles::{VirtComm, VirtGroup, real_group};
use crate::objects::comm;
use crate::objects::group::{self, ERR_GROUP};
use crate::objects::lookup::{from_fortran, to_fortran};
use crate::raise::raise;
use crate::recovery::Runtime;
use crate::world;
use std::ffi::c_int;
use understudy_mpi::real_types::UNDEFINED;
use understudy_numbers::Worker;

/// Ends a constructor.
///
/// # Safety
/// `newgroup` is the program's place for the handle, or null.
unsafe fn constructed(
    rt: &Runtime,
    procedure: Proc,
    newgroup: *mut VirtGroup,
    (members, session): (Result<Vec<Worker>, c_int>, u64),
    comm: Option<VirtComm>,
) -> c_int {
    if newgroup.is_null() {
        return raise(rt, procedure, ERR_ARG, comm);
    }
    match members.and_then(|it| group::create(rt, it, session)) {
        Ok(handle) => {
            // SAFETY: the caller's promise.
            unsafe { *newgroup = handle };
            SUCCESS
        }
        Err(rc) => raise(rt, procedure, rc, comm),
    }
}

/// An array of the program with `count` elements.
///
/// # Safety
/// It must be one, or null.
unsafe fn array<'a, T>(first: *const T, count: c_int) -> Result<&'a [T], c_int> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: the caller's promise.
        Ok(count) if !first.is_null() => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
        _ => Err(ERR_ARG),
    }
}

fn known(rt: &Runtime, group: VirtGroup) -> Result<Vec<Worker>, c_int> {
    group::members(rt, group).ok_or(ERR_GROUP)
}

pub unsafe extern "C" fn MPI_Comm_group(comm: VirtComm, group: *mut VirtGroup) -> c_int {
    let rt = runtime();
    // SAFETY: the program's place for the handle.
    unsafe {
        constructed(
            rt,
            Proc::MPI_Comm_group,
            group,
            (
                comm::members(rt, comm).ok_or(ERR_COMM),
                comm::session(rt, comm),
            ),
            Some(comm),
        )
    }
}

pub unsafe extern "C" fn MPI_Comm_remote_group(comm: VirtComm, group: *mut VirtGroup) -> c_int {
    let rt = runtime();
    // SAFETY: the program's place for the handle.
    unsafe {
        constructed(
            rt,
            Proc::MPI_Comm_remote_group,
            group,
            (
                comm::remote_members(rt, comm).ok_or(ERR_COMM),
                comm::session(rt, comm),
            ),
            Some(comm),
        )
    }
}

/// Ends an inquiry.
///
/// # Safety
/// `place` is the program's, or null.
unsafe fn told(
    rt: &Runtime,
    procedure: Proc,
    place: *mut c_int,
    answer: Result<c_int, c_int>,
) -> c_int {
    match answer {
        Ok(_) if place.is_null() => raise(rt, procedure, ERR_ARG, None),
        Ok(answer) => {
            // SAFETY: the caller's promise.
            unsafe { *place = answer };
            SUCCESS
        }
        Err(rc) => raise(rt, procedure, rc, None),
    }
}

pub unsafe extern "C" fn MPI_Group_size(group: VirtGroup, size: *mut c_int) -> c_int {
    let rt = runtime();
    let answer = known(rt, group).map(|members| members.len() as c_int);
    // SAFETY: the program's place.
    unsafe { told(rt, Proc::MPI_Group_size, size, answer) }
}

pub unsafe extern "C" fn MPI_Group_rank(group: VirtGroup, rank: *mut c_int) -> c_int {
    let rt = runtime();
    let me = world::worker(rt);
    let place = |members: Vec<Worker>| members.iter().position(|&member| member == me);
    let answer =
        known(rt, group).map(|members| place(members).map_or(UNDEFINED, |rank| rank as c_int));
    // SAFETY: the program's place.
    unsafe { told(rt, Proc::MPI_Group_rank, rank, answer) }
}

pub unsafe extern "C" fn MPI_Group_compare(
    group1: VirtGroup,
    group2: VirtGroup,
    result: *mut c_int,
) -> c_int {
    let rt = runtime();
    let answer = known(rt, group1)
        .and_then(|first| Ok(group::compare(&first, &known(rt, group2)?) as c_int));
    // SAFETY: the program's place.
    unsafe { told(rt, Proc::MPI_Group_compare, result, answer) }
}

pub unsafe extern "C" fn MPI_Group_translate_ranks(
    group1: VirtGroup,
    n: c_int,
    ranks1: *const c_int,
    group2: VirtGroup,
    ranks2: *mut c_int,
) -> c_int {
    let rt = runtime();
    let translated = known(rt, group1).and_then(|first| {
        // SAFETY: the program's arrays.
        let ranks = unsafe { array(ranks1, n)? };
        group::translate(&first, ranks, &known(rt, group2)?)
    });
    match translated {
        Ok(ranks) if ranks2.is_null() && !ranks.is_empty() => {
            raise(rt, Proc::MPI_Group_translate_ranks, ERR_ARG, None)
        }
        Ok(ranks) => {
            // SAFETY: the program's array of as many, which may be the first one.
            unsafe { ranks2.copy_from_nonoverlapping(ranks.as_ptr(), ranks.len()) };
            SUCCESS
        }
        Err(rc) => raise(rt, Proc::MPI_Group_translate_ranks, rc, None),
    }
}

type Selection<T> = fn(&[Worker], &[T]) -> Result<Vec<Worker>, c_int>;

/// # Safety
/// The program's arguments.
unsafe fn select<T>(
    rt: &Runtime,
    procedure: Proc,
    selection: Selection<T>,
    (group, n, ranks, newgroup): (VirtGroup, c_int, *const T, *mut VirtGroup),
) -> c_int {
    // SAFETY: the program's array and its place for the handle.
    unsafe {
        let members = known(rt, group).and_then(|members| selection(&members, array(ranks, n)?));
        constructed(
            rt,
            procedure,
            newgroup,
            (members, group::session(rt, group)),
            None,
        )
    }
}

pub unsafe extern "C" fn MPI_Group_incl(
    group: VirtGroup,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe {
        select(
            rt,
            Proc::MPI_Group_incl,
            group::incl,
            (group, n, ranks, newgroup),
        )
    }
}

pub unsafe extern "C" fn MPI_Group_excl(
    group: VirtGroup,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe {
        select(
            rt,
            Proc::MPI_Group_excl,
            group::excl,
            (group, n, ranks, newgroup),
        )
    }
}

pub unsafe extern "C" fn MPI_Group_range_incl(
    group: VirtGroup,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    let selection: Selection<[c_int; 3]> =
        |members, ranges| group::incl(members, &group::expand(ranges, members.len())?);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        select(
            rt,
            Proc::MPI_Group_range_incl,
            selection,
            (group, n, ranges.cast_const(), newgroup),
        )
    }
}

pub unsafe extern "C" fn MPI_Group_range_excl(
    group: VirtGroup,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    let selection: Selection<[c_int; 3]> =
        |members, ranges| group::excl(members, &group::expand(ranges, members.len())?);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        select(
            rt,
            Proc::MPI_Group_range_excl,
            selection,
            (group, n, ranges.cast_const(), newgroup),
        )
    }
}

/// # Safety
/// The program's arguments.
unsafe fn combine(
    rt: &Runtime,
    procedure: Proc,
    operation: fn(&[Worker], &[Worker]) -> Vec<Worker>,
    (group1, group2, newgroup): (VirtGroup, VirtGroup, *mut VirtGroup),
) -> c_int {
    let members = known(rt, group1).and_then(|first| Ok(operation(&first, &known(rt, group2)?)));
    // SAFETY: the program's place for the handle.
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

pub unsafe extern "C" fn MPI_Group_union(
    group1: VirtGroup,
    group2: VirtGroup,
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe {
        combine(
            rt,
            Proc::MPI_Group_union,
            group::union,
            (group1, group2, newgroup),
        )
    }
}

pub unsafe extern "C" fn MPI_Group_intersection(
    group1: VirtGroup,
    group2: VirtGroup,
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe {
        combine(
            rt,
            Proc::MPI_Group_intersection,
            group::intersection,
            (group1, group2, newgroup),
        )
    }
}

pub unsafe extern "C" fn MPI_Group_difference(
    group1: VirtGroup,
    group2: VirtGroup,
    newgroup: *mut VirtGroup,
) -> c_int {
    let rt = runtime();
    // SAFETY: the program's arguments are handed on.
    unsafe {
        combine(
            rt,
            Proc::MPI_Group_difference,
            group::difference,
            (group1, group2, newgroup),
        )
    }
}

/// `MPI_GROUP_EMPTY`, which a constructor may have returned, may be freed too.
pub unsafe extern "C" fn MPI_Group_free(group: *mut VirtGroup) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Group_free;
    if group.is_null() {
        return raise(rt, procedure, ERR_ARG, None);
    }
    // SAFETY: the program's handle.
    let handle = unsafe { *group };
    let rc = if handle == group::empty_handle(rt) {
        SUCCESS
    } else {
        group::free(rt, handle)
    };
    if rc != SUCCESS {
        return raise(rt, procedure, rc, None);
    }
    // SAFETY: the program's handle.
    unsafe { *group = group::null_handle(rt) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Group_c2f(group: VirtGroup) -> c_int {
    let rt = runtime();
    // SAFETY: a predefined group.
    to_fortran(HandleKind::Group, group.0, || unsafe {
        real::PMPI_Group_c2f(real_group(rt, group))
    })
}

pub unsafe extern "C" fn MPI_Group_f2c(group: c_int) -> VirtGroup {
    let rt = runtime();
    let exists = |index| crate::objects::objects(rt).groups.get(index).is_some();
    // SAFETY: the real library checks the number.
    VirtGroup(from_fortran(
        rt,
        HandleKind::Group,
        group,
        exists,
        || unsafe { real::PMPI_Group_f2c(group).0 },
    ))
}
