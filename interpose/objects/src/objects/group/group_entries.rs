//! Groups in the table, and their real groups.
#![allow(unsafe_code)]

use super::group_members::{Group, union};
use crate::Runtime;
use crate::errors::SUCCESS;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtGroup, real_comm, real_group};
use crate::objects::lookup::{PredefinedHandle, created_index};
use crate::objects::rebuild_error::log_not_rebuilt;
use crate::objects::{comm, objects, objects_mut};
use std::ffi::c_int;
use understudy_mpi::real_types::RealGroup;
use understudy_numbers::Worker;

pub const ERR_GROUP: c_int = 9;
static NULL: PredefinedHandle = PredefinedHandle::new("ompi_mpi_group_null");
static EMPTY: PredefinedHandle = PredefinedHandle::new("ompi_mpi_group_empty");

/// Returns the program's handle of `MPI_GROUP_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtGroup {
    VirtGroup(NULL.get(rt))
}

/// Returns the program's handle of `MPI_GROUP_EMPTY`.
pub fn empty_handle(rt: &Runtime) -> VirtGroup {
    VirtGroup(EMPTY.get(rt))
}

/// Returns the index of a created group.
pub fn index(rt: &Runtime, group: VirtGroup) -> Option<u32> {
    created_index(HandleKind::Group, group.0)
        .filter(|&index| objects(rt).groups.get(index).is_some())
}

/// Returns the members of a group as ranks of `MPI_COMM_WORLD`.
///
/// `None` for `MPI_GROUP_NULL` and for invalid handles.
pub fn members(rt: &Runtime, group: VirtGroup) -> Option<Vec<Worker>> {
    match index(rt, group) {
        Some(index) => Some(objects(rt).groups.get(index)?.members.clone()),
        None => (group == empty_handle(rt)).then(Vec::new),
    }
}

/// Returns the program's handle of the session that a group comes from.
///
/// Zero for the World Model.
pub fn session(rt: &Runtime, group: VirtGroup) -> u64 {
    let index = created_index(HandleKind::Group, group.0);
    index
        .and_then(|index| Some(objects(rt).groups.get(index)?.session))
        .unwrap_or(0)
}

/// Creates a group of these members; returns `MPI_GROUP_EMPTY` without members.
///
/// `session` is the program's handle of the group's session; zero for the World Model.
pub fn create(rt: &Runtime, members: Vec<Worker>, session: u64) -> Result<VirtGroup, c_int> {
    if members.is_empty() {
        return Ok(empty_handle(rt));
    }
    let real = match members.iter().copied().any(comm::is_spawned) {
        true => make_of_spawned(rt, &members)?.map_or(std::ptr::null_mut(), |real| real.0),
        false => with_world(rt, |world| make_of_workers(rt, world, &members))?.0,
    };
    let index = objects_mut(rt).groups.insert(Group { members, session });
    handles::set_real(rt, HandleKind::Group, index, real);
    Ok(VirtGroup(handles::virtual_handle(HandleKind::Group, index)))
}

pub fn free(rt: &Runtime, group: VirtGroup) -> c_int {
    let Some(index) = index(rt, group) else {
        return ERR_GROUP;
    };
    objects_mut(rt).groups.remove(index);
    drop_real(rt, index)
}

fn drop_real(rt: &Runtime, index: u32) -> c_int {
    let mut group = real_group(
        rt,
        VirtGroup(handles::virtual_handle(HandleKind::Group, index)),
    );
    handles::set_real(rt, HandleKind::Group, index, std::ptr::null_mut());
    if group.0.is_null() {
        return SUCCESS;
    }
    // SAFETY: a group of the runtime, which no other code uses.
    unsafe { real::PMPI_Group_free(&mut group) }
}

fn check(rc: c_int) -> Result<(), c_int> {
    if rc == SUCCESS { Ok(()) } else { Err(rc) }
}

/// Calls `action` with the real group of all workers.
fn with_world<T>(
    rt: &Runtime,
    action: impl FnOnce(RealGroup) -> Result<T, c_int>,
) -> Result<T, c_int> {
    let mut world = real_group(rt, null_handle(rt));
    // SAFETY: a communicator of the runtime, which owns the returned group.
    unsafe {
        check(real::PMPI_Comm_group(
            real_comm(rt, comm::world_handle(rt)),
            &mut world,
        ))?;
        let outcome = action(world);
        real::PMPI_Group_free(&mut world);
        outcome
    }
}

fn make_of_workers(rt: &Runtime, world: RealGroup, members: &[Worker]) -> Result<RealGroup, c_int> {
    let ranks: Vec<c_int> = members.iter().map(|member| member.0 as c_int).collect();
    let mut group = real_group(rt, null_handle(rt));
    // SAFETY: a valid group, an array of this length, and a variable for the result; the library
    // checks the ranks.
    check(unsafe {
        real::PMPI_Group_incl(world, ranks.len() as c_int, ranks.as_ptr(), &mut group)
    })?;
    Ok(group)
}

/// Creates a real group with spawned processes among its members.
///
/// Selects the members from the union of the world's group and the groups of all communicators with
/// spawned processes. `None` if the union does not contain all members: then the program cannot
/// pass the group to the library.
fn make_of_spawned(rt: &Runtime, members: &[Worker]) -> Result<Option<RealGroup>, c_int> {
    with_world(rt, |world| {
        let size = comm::members(rt, comm::world_handle(rt)).map_or(0, |all| all.len());
        let mut all: Vec<Worker> = (0..size as u32).map(Worker).collect();
        let mut unions = vec![world];
        let joined = comm::spawned::visit(rt, |group, numbers| {
            let mut larger = real_group(rt, null_handle(rt));
            // SAFETY: `visit` passes a valid group, and `unions` contains groups that are not freed
            // yet.
            understudy_mpi::check(unsafe {
                real::PMPI_Group_union(unions[unions.len() - 1], group, &mut larger)
            })?;
            unions.push(larger);
            all = union(&all, numbers);
            Ok(())
        });
        let ranks: Option<Vec<Worker>> = members
            .iter()
            .map(|member| Some(Worker(all.iter().position(|one| one == member)? as u32)))
            .collect();
        let made = joined.map_err(c_int::from).and_then(|()| {
            let made = ranks.map(|ranks| make_of_workers(rt, unions[unions.len() - 1], &ranks));
            made.transpose()
        });
        for mut group in unions.drain(1..) {
            // SAFETY: a group of the runtime, which no other code uses.
            unsafe { real::PMPI_Group_free(&mut group) };
        }
        made
    })
}

/// Frees all real groups, before the table is replaced.
pub fn release_all(rt: &Runtime) {
    let all: Vec<u32> = objects(rt).groups.iter().map(|(index, _)| index).collect();
    for index in all {
        drop_real(rt, index);
    }
}

/// Creates the real groups from the new world.
///
/// Existing real groups belong to the library's former instance. After a recovery no communicator
/// contains spawned processes, so groups with such members get no real group.
pub fn rebuild(rt: &Runtime) {
    let outcome = with_world(rt, |world| {
        for (index, group) in objects(rt).groups.iter() {
            let real = match group.members.iter().copied().any(comm::is_spawned) {
                true => std::ptr::null_mut(),
                false => make_of_workers(rt, world, &group.members)?.0,
            };
            handles::set_real(rt, HandleKind::Group, index, real);
        }
        Ok(())
    });
    if let Err(rc) = outcome {
        log_not_rebuilt("the groups", rc);
    }
}
