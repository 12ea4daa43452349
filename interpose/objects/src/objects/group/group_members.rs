//! Members of groups, and the operations on them (MPI 4.1, 7.3). Plain data.

use crate::errors::{ERR_ARG, ERR_RANK};
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use understudy_mpi::real_types::{PROC_NULL, UNDEFINED};
use understudy_numbers::Worker;

/// Members of a group, and the session of the group.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Group {
    /// Members in the order of their ranks.
    ///
    /// Members are ranks of `MPI_COMM_WORLD`, or numbers of
    /// [spawned](crate::objects::comm::spawned) processes.
    pub members: Vec<Worker>,
    /// Program's handle of the group's session; zero for the World Model.
    pub session: u64,
}

/// Returns the members with these ranks, in this order (7.3.2: `MPI_Group_incl`).
pub fn incl(members: &[Worker], ranks: &[c_int]) -> Result<Vec<Worker>, c_int> {
    Ok(positions(members, ranks)?
        .into_iter()
        .map(|position| members[position])
        .collect())
}

/// Returns all members except those with these ranks (`MPI_Group_excl`).
pub fn excl(members: &[Worker], ranks: &[c_int]) -> Result<Vec<Worker>, c_int> {
    let out: HashSet<usize> = positions(members, ranks)?.into_iter().collect();
    Ok(members
        .iter()
        .enumerate()
        .filter(|(position, _)| !out.contains(position))
        .map(|(_, &member)| member)
        .collect())
}

/// Converts ranks to indices; each rank must exist and occur only once.
fn positions(members: &[Worker], ranks: &[c_int]) -> Result<Vec<usize>, c_int> {
    let mut seen = HashSet::new();
    let valid = |&rank: &c_int| match usize::try_from(rank) {
        Ok(position) if position < members.len() && seen.insert(position) => Ok(position),
        _ => Err(ERR_RANK),
    };
    ranks.iter().map(valid).collect()
}

/// Expands ranges (first rank, last rank, stride) to ranks in a group of `size` (7.3.2).
pub fn expand(ranges: &[[c_int; 3]], size: usize) -> Result<Vec<c_int>, c_int> {
    let mut ranks = Vec::new();
    for &[first, last, stride] in ranges {
        if stride == 0 {
            return Err(ERR_ARG);
        }
        let within = |rank: c_int| usize::try_from(rank).is_ok_and(|rank| rank < size);
        // With a stride, the ranks of a range may end before `last`. The standard requires all of
        // these ranks to be in the group.
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

/// Returns the first group's members, then other members of the second (`MPI_Group_union`).
pub fn union(first: &[Worker], second: &[Worker]) -> Vec<Worker> {
    first
        .iter()
        .copied()
        .chain(difference(second, first))
        .collect()
}

/// Returns the members of the first group that are in the second (`MPI_Group_intersection`).
pub fn intersection(first: &[Worker], second: &[Worker]) -> Vec<Worker> {
    let second: HashSet<Worker> = second.iter().copied().collect();
    first
        .iter()
        .copied()
        .filter(|member| second.contains(member))
        .collect()
}

/// Returns the members of the first group that are not in the second (`MPI_Group_difference`).
pub fn difference(first: &[Worker], second: &[Worker]) -> Vec<Worker> {
    let second: HashSet<Worker> = second.iter().copied().collect();
    first
        .iter()
        .copied()
        .filter(|member| !second.contains(member))
        .collect()
}

/// Result of a comparison of two groups (`MPI_Group_compare`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Comparison {
    Identical = 0,
    Similar = 2,
    Unequal = 3,
}

/// Compares two groups by their members and the members' order (7.3.1).
pub fn compare(first: &[Worker], second: &[Worker]) -> Comparison {
    let set = |members: &[Worker]| members.iter().copied().collect::<HashSet<Worker>>();
    match first == second {
        true => Comparison::Identical,
        false if first.len() == second.len() && set(first) == set(second) => Comparison::Similar,
        false => Comparison::Unequal,
    }
}

/// Returns the ranks that members of the first group have in the second
/// (`MPI_Group_translate_ranks`).
pub fn translate(
    first: &[Worker],
    ranks: &[c_int],
    second: &[Worker],
) -> Result<Vec<c_int>, c_int> {
    let ranks_in_second: HashMap<Worker, c_int> = second.iter().copied().zip(0..).collect();
    let translated =
        |&rank: &c_int| match usize::try_from(rank).ok().and_then(|rank| first.get(rank)) {
            Some(member) => Ok(ranks_in_second.get(member).copied().unwrap_or(UNDEFINED)),
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
    fn ranges_may_decrease_and_need_not_reach_their_end() {
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
