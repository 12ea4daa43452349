//! Groups (MPI 4.1, 7.3): lists of workers, and of processes that they have spawned. All that is local the layer computes itself; a real group
//! stands beside one whose members can be reached.
#![allow(unsafe_code)]

use super::comm;
use super::lookup::{Predefined, created};
use super::{objects, objects_mut};
use crate::errors::{ERR_ARG, ERR_RANK, SUCCESS};
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtGroup, real_comm, real_group};
use crate::objects::Runtime;
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use understudy_mpi::real_types::{PROC_NULL, RealGroup, UNDEFINED};
use understudy_numbers::Worker;

pub const ERR_GROUP: c_int = 9;

static NULL: Predefined = Predefined::new("ompi_mpi_group_null");
static EMPTY: Predefined = Predefined::new("ompi_mpi_group_empty");

/// The members of a group.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Group {
    /// In the order of their ranks, as ranks of `MPI_COMM_WORLD`, or numbers of [spawned](comm::spawned) processes.
    pub members: Vec<Worker>,
    /// The session that it comes from: the program's handle; 0: the World Model.
    pub session: u64,
}

/// `MPI_GROUP_NULL` as the program knows it.
pub fn null_handle(rt: &Runtime) -> VirtGroup {
    VirtGroup(NULL.get(rt))
}

/// `MPI_GROUP_EMPTY` as the program knows it.
pub fn empty_handle(rt: &Runtime) -> VirtGroup {
    VirtGroup(EMPTY.get(rt))
}

/// The index of a created group.
pub fn index(rt: &Runtime, group: VirtGroup) -> Option<u32> {
    created(HandleKind::Group, group.0).filter(|&index| objects(rt).groups.get(index).is_some())
}

/// The members of a group as ranks of `MPI_COMM_WORLD`; nothing for `MPI_GROUP_NULL` and for what is no group.
pub fn members(rt: &Runtime, group: VirtGroup) -> Option<Vec<Worker>> {
    match index(rt, group) {
        Some(index) => Some(objects(rt).groups.get(index)?.members.clone()),
        None => (group == empty_handle(rt)).then(Vec::new),
    }
}

/// The session that a group comes from: the program's handle; 0: the World Model.
pub fn session(rt: &Runtime, group: VirtGroup) -> u64 {
    let index = created(HandleKind::Group, group.0);
    index
        .and_then(|index| Some(objects(rt).groups.get(index)?.session))
        .unwrap_or(0)
}

/// A group of these members, that comes from this session or, with 0, the World Model; without any it is `MPI_GROUP_EMPTY`.
pub fn create(rt: &Runtime, members: Vec<Worker>, session: u64) -> Result<VirtGroup, c_int> {
    if members.is_empty() {
        return Ok(empty_handle(rt));
    }
    let real = match members.iter().copied().any(comm::is_spawned) {
        true => make_of_spawned(rt, &members)?.map_or(std::ptr::null_mut(), |real| real.0),
        false => with_world(rt, |world| make(rt, world, &members))?.0,
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
    // SAFETY: a group of ours.
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
    // SAFETY: a communicator of ours; the group is ours then.
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

fn make(rt: &Runtime, world: RealGroup, members: &[Worker]) -> Result<RealGroup, c_int> {
    let ranks: Vec<c_int> = members.iter().map(|member| member.0 as c_int).collect();
    let mut group = real_group(rt, null_handle(rt));
    // SAFETY: the group of all workers and ranks in it.
    check(unsafe {
        real::PMPI_Group_incl(world, ranks.len() as c_int, ranks.as_ptr(), &mut group)
    })?;
    Ok(group)
}

/// The same if spawned processes are among them; none if no communicator leads to one of these any more, so nobody has use for it.
fn make_of_spawned(rt: &Runtime, members: &[Worker]) -> Result<Option<RealGroup>, c_int> {
    with_world(rt, |world| {
        let size = comm::members(rt, comm::world_handle(rt)).map_or(0, |all| all.len());
        let mut all: Vec<Worker> = (0..size as u32).map(Worker).collect();
        let mut unions = vec![world];
        let joined = comm::spawned::visit(rt, |group, numbers| {
            let mut more = real_group(rt, null_handle(rt));
            // SAFETY: groups of ours.
            understudy_mpi::check(unsafe {
                real::PMPI_Group_union(unions[unions.len() - 1], group, &mut more)
            })?;
            unions.push(more);
            all = union(&all, numbers);
            Ok(())
        });
        let ranks: Option<Vec<Worker>> = members
            .iter()
            .map(|member| Some(Worker(all.iter().position(|one| one == member)? as u32)))
            .collect();
        let made = joined.map_err(c_int::from).and_then(|()| {
            let made = ranks.map(|ranks| make(rt, unions[unions.len() - 1], &ranks));
            made.transpose()
        });
        for mut group in unions.drain(1..) {
            // SAFETY: a group of ours.
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

/// Makes the real groups from the new world. Real groups that are still there are given up. Nothing leads to spawned processes now.
pub fn rebuild(rt: &Runtime) {
    let outcome = with_world(rt, |world| {
        for (index, group) in objects(rt).groups.iter() {
            let real = match group.members.iter().copied().any(comm::is_spawned) {
                true => std::ptr::null_mut(),
                false => make(rt, world, &group.members)?.0,
            };
            handles::set_real(rt, HandleKind::Group, index, real);
        }
        Ok(())
    });
    if let Err(rc) = outcome {
        super::not_made_again("the groups", rc);
    }
}

/// The members with these ranks, in this order (7.3.2: `MPI_Group_incl`).
pub fn incl(members: &[Worker], ranks: &[c_int]) -> Result<Vec<Worker>, c_int> {
    Ok(positions(members, ranks)?
        .into_iter()
        .map(|position| members[position])
        .collect())
}

/// All members but those with these ranks (`MPI_Group_excl`).
pub fn excl(members: &[Worker], ranks: &[c_int]) -> Result<Vec<Worker>, c_int> {
    let out: HashSet<usize> = positions(members, ranks)?.into_iter().collect();
    Ok(members
        .iter()
        .enumerate()
        .filter(|(position, _)| !out.contains(position))
        .map(|(_, &member)| member)
        .collect())
}

/// Ranks as indices: each must exist and occur once only.
fn positions(members: &[Worker], ranks: &[c_int]) -> Result<Vec<usize>, c_int> {
    let mut seen = HashSet::new();
    let valid = |&rank: &c_int| match usize::try_from(rank) {
        Ok(position) if position < members.len() && seen.insert(position) => Ok(position),
        _ => Err(ERR_RANK),
    };
    ranks.iter().map(valid).collect()
}

/// The ranks that triples first, last, stride stand for in a group of `size`.
pub fn expand(ranges: &[[c_int; 3]], size: usize) -> Result<Vec<c_int>, c_int> {
    let mut ranks = Vec::new();
    for &[first, last, stride] in ranges {
        if stride == 0 {
            return Err(ERR_ARG);
        }
        let within = |rank: c_int| usize::try_from(rank).is_ok_and(|rank| rank < size);
        // The last one need not be met, but the standard demands that all that are met are ranks of the group.
        let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
        let backwards = (last > first && stride < 0) || (last < first && stride > 0);
        let end = i64::from(first) + steps * i64::from(stride);
        if backwards || !within(first) || !c_int::try_from(end).is_ok_and(within) {
            return Err(ERR_RANK);
        }
        ranks
            .extend((0..=steps).map(|step| (i64::from(first) + step * i64::from(stride)) as c_int));
    }
    Ok(ranks)
}

/// The first group's members, then those of the second that are not in it (`MPI_Group_union`).
pub fn union(first: &[Worker], second: &[Worker]) -> Vec<Worker> {
    first
        .iter()
        .copied()
        .chain(difference(second, first))
        .collect()
}

/// The first group's members that are in the second (`MPI_Group_intersection`).
pub fn intersection(first: &[Worker], second: &[Worker]) -> Vec<Worker> {
    let second: HashSet<Worker> = second.iter().copied().collect();
    first
        .iter()
        .copied()
        .filter(|member| second.contains(member))
        .collect()
}

/// The first group's members that are not in the second (`MPI_Group_difference`).
pub fn difference(first: &[Worker], second: &[Worker]) -> Vec<Worker> {
    let second: HashSet<Worker> = second.iter().copied().collect();
    first
        .iter()
        .copied()
        .filter(|member| !second.contains(member))
        .collect()
}

/// How two groups compare (`MPI_Group_compare`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Comparison {
    Identical = 0,
    Similar = 2,
    Unequal = 3,
}

/// The same members in the same order, or in another one, or others (7.3.1).
pub fn compare(first: &[Worker], second: &[Worker]) -> Comparison {
    let set = |members: &[Worker]| members.iter().copied().collect::<HashSet<Worker>>();
    match first == second {
        true => Comparison::Identical,
        false if first.len() == second.len() && set(first) == set(second) => Comparison::Similar,
        false => Comparison::Unequal,
    }
}

/// The ranks in the second group of members of the first (`MPI_Group_translate_ranks`).
pub fn translate(
    first: &[Worker],
    ranks: &[c_int],
    second: &[Worker],
) -> Result<Vec<c_int>, c_int> {
    let places: HashMap<Worker, c_int> = second.iter().copied().zip(0..).collect();
    let translated =
        |&rank: &c_int| match usize::try_from(rank).ok().and_then(|rank| first.get(rank)) {
            Some(member) => Ok(places.get(member).copied().unwrap_or(UNDEFINED)),
            None if rank == PROC_NULL => Ok(PROC_NULL),
            None => Err(ERR_RANK),
        };
    ranks.iter().map(translated).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        Comparison, PROC_NULL, UNDEFINED, Worker, compare, difference, excl, expand, incl,
        intersection, translate, union,
    };
    use crate::errors::{ERR_ARG, ERR_RANK};

    const GROUP: [Worker; 5] = [Worker(7), Worker(3), Worker(9), Worker(0), Worker(4)];

    fn workers<const N: usize>(workers: [u32; N]) -> Vec<Worker> {
        workers.map(Worker).into()
    }

    #[test]
    fn ranks_are_taken_in_the_order_given() {
        assert_eq!(incl(&GROUP, &[4, 0, 2]), Ok(workers([4, 7, 9])));
        assert_eq!(incl(&GROUP, &[]), Ok(vec![]));
        assert_eq!(incl(&GROUP, &[1, 1]), Err(ERR_RANK));
        assert_eq!(incl(&GROUP, &[5]), Err(ERR_RANK));
        assert_eq!(incl(&GROUP, &[-1]), Err(ERR_RANK));
    }

    #[test]
    fn ranks_that_are_left_out_do_not_change_the_order() {
        assert_eq!(excl(&GROUP, &[3, 1]), Ok(workers([7, 9, 4])));
        assert_eq!(excl(&GROUP, &[]), Ok(GROUP.to_vec()));
        assert_eq!(excl(&GROUP, &[0, 0]), Err(ERR_RANK));
    }

    #[test]
    fn ranges_may_go_down_and_need_not_meet_their_end() {
        assert_eq!(expand(&[[0, 4, 2], [3, 1, -2]], 5), Ok(vec![0, 2, 4, 3, 1]));
        assert_eq!(expand(&[[1, 4, 2]], 5), Ok(vec![1, 3]));
        assert_eq!(expand(&[[2, 2, -7]], 5), Ok(vec![2]));
        assert_eq!(expand(&[], 5), Ok(vec![]));
    }

    #[test]
    fn bad_ranges_are_refused() {
        assert_eq!(expand(&[[0, 1, 0]], 5), Err(ERR_ARG));
        assert_eq!(expand(&[[0, 3, -1]], 5), Err(ERR_RANK));
        assert_eq!(expand(&[[3, 0, 1]], 5), Err(ERR_RANK));
        assert_eq!(expand(&[[0, 5, 1]], 5), Err(ERR_RANK));
        assert_eq!(expand(&[[-1, 3, 1]], 5), Err(ERR_RANK));
        assert_eq!(expand(&[[0, i32::MAX, 1]], 5), Err(ERR_RANK));
    }

    #[test]
    fn groups_compare_by_members_and_their_order() {
        let turned = workers([4, 0, 9, 3, 7]);
        assert_eq!(compare(&GROUP, &GROUP), Comparison::Identical);
        assert_eq!(compare(&GROUP, &turned), Comparison::Similar);
        assert_eq!(compare(&GROUP, &GROUP[1..]), Comparison::Unequal);
        assert_eq!(
            compare(&GROUP, &workers([7, 3, 9, 0, 5])),
            Comparison::Unequal
        );
        assert_eq!(compare(&[], &[]), Comparison::Identical);
    }

    #[test]
    fn ranks_are_translated_by_members() {
        let second = workers([0, 7, 1]);
        let ranks = [0, 3, 1, PROC_NULL, 0];
        let expected = vec![1, 0, UNDEFINED, PROC_NULL, 1];
        assert_eq!(translate(&GROUP, &ranks, &second), Ok(expected));
        assert_eq!(translate(&GROUP, &[5], &second), Err(ERR_RANK));
        assert_eq!(translate(&GROUP, &[UNDEFINED], &second), Err(ERR_RANK));
    }

    #[test]
    fn sets_keep_the_order_of_the_first_group() {
        let (a, b) = (workers([1, 5, 2]), workers([2, 8, 1, 0]));
        assert_eq!(union(&a, &b), workers([1, 5, 2, 8, 0]));
        assert_eq!(intersection(&a, &b), workers([1, 2]));
        assert_eq!(difference(&a, &b), workers([5]));
        assert_eq!(union(&[], &[]), []);
    }
}
