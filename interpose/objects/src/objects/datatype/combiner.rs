//! Positions of a datatype's data, computed from its constructor (MPI 4.1, 5.1.2 to 5.1.13).

use super::constructors::{
    CONTIGUOUS, DARRAY, DUP, HINDEXED, HINDEXED_BLOCK, HINDEXED_INTEGER, HVECTOR, HVECTOR_INTEGER,
    INDEXED, INDEXED_BLOCK, RESIZED, STRUCT, STRUCT_INTEGER, SUBARRAY, VECTOR,
};
use super::recipe::Recipe;

/// Blocks of a derived datatype, as pairs of offset and count.
///
/// The count is in elements of the old datatype, from which the derived one is constructed.
#[derive(Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Blocks of one datatype, at offsets in bytes.
    Bytes(Vec<(isize, usize)>),
    /// Blocks of one datatype, at offsets in multiples of its extent.
    Elements(Vec<(isize, usize)>),
    /// Blocks of a structure: block *n* has datatype *n*, at an offset in bytes.
    Each(Vec<(isize, usize)>),
}

const ORDER_C: i64 = 0;
const BLOCK: i64 = 0;
const CYCLIC: i64 = 1;
const DEFAULT_ARGUMENT: i64 = -1;

/// Arguments of a constructor, in the order of `MPI_Type_x` (not of `MPI_Type_x_c`).
struct SmallCountArguments {
    integers: Vec<i64>,
    addresses: Vec<i64>,
}

/// Returns a constructor's arguments in the order of the procedure with `int` counts.
///
/// A recipe of a procedure with large counts (`MPI_Type_x_c`) has another order (5.1.13).
/// `None` for constructors that this file does not support.
fn arguments(recipe: &Recipe) -> Option<SmallCountArguments> {
    let integers: Vec<i64> = recipe
        .integers
        .iter()
        .map(|&integer| integer.into())
        .collect();
    let counts = &recipe.counts;
    if counts.is_empty() {
        let addresses = recipe.addresses.clone();
        return Some(SmallCountArguments {
            integers,
            addresses,
        });
    }
    let count = || usize::try_from(*counts.first()?).ok();
    let split = |at: usize| {
        let (integers, addresses) = counts.split_at_checked(at)?;
        Some((integers.to_vec(), addresses.to_vec()))
    };
    let (integers, addresses) = match recipe.combiner {
        RESIZED => split(0)?,
        HVECTOR | HINDEXED_BLOCK => split(2)?,
        HINDEXED | STRUCT => split(count()?.checked_add(1)?)?,
        CONTIGUOUS | VECTOR | INDEXED | INDEXED_BLOCK => split(counts.len())?,
        SUBARRAY => insert_counts(&integers, 1, counts)?,
        DARRAY => insert_counts(&integers, 3, counts)?,
        _ => return None,
    };
    Some(SmallCountArguments {
        integers,
        addresses,
    })
}

/// Inserts counts into a list of integers, and adds an empty list of addresses.
fn insert_counts(integers: &[i64], at: usize, counts: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
    let (before, after) = integers.split_at_checked(at)?;
    Some(([before, counts, after].concat(), Vec::new()))
}

/// Returns the blocks of a datatype.
///
/// `None` for constructors that this file does not support, for missing arguments, and for more
/// than `max_blocks` blocks.
pub fn blocks(recipe: &Recipe, max_blocks: usize) -> Option<Blocks> {
    let arguments = arguments(recipe)?;
    let integer = |at: usize| Some(*arguments.integers.get(at)? as isize);
    let count = arguments
        .integers
        .first()
        .map_or(0, |&count| count.max(0) as usize);
    // The first integer is the number of blocks, with two exceptions: a contiguous datatype is one
    // block, and for a distributed array the integer is the number of processes.
    if count > max_blocks && !matches!(recipe.combiner, CONTIGUOUS | DARRAY) {
        return None;
    }
    let addresses = || arguments.addresses.iter().map(|&address| address as isize);
    let zip = |lengths: &[i64], offsets: Vec<isize>| -> Vec<(isize, usize)> {
        let lengths = lengths.iter().map(|&length| length.max(0) as usize);
        offsets.into_iter().zip(lengths).collect()
    };
    let strided = |stride: isize, length: isize| -> Vec<(isize, usize)> {
        (0..count as isize)
            .map(|block| (block * stride, length.max(0) as usize))
            .collect()
    };
    let integers = |at: usize| arguments.integers.get(at..at.checked_add(count)?);
    let offsets = |at: usize| {
        let offsets = integers(at)?.iter();
        Some(offsets.map(|&offset| offset as isize).collect::<Vec<_>>())
    };
    let of_equal_length = |offsets: Vec<isize>| -> Option<Vec<(isize, usize)>> {
        let length = integer(1)?.max(0) as usize;
        Some(offsets.into_iter().map(|offset| (offset, length)).collect())
    };
    Some(match recipe.combiner {
        DUP | RESIZED => Blocks::Bytes(vec![(0, 1)]),
        CONTIGUOUS => Blocks::Bytes(vec![(0, count)]),
        VECTOR => Blocks::Elements(strided(integer(2)?, integer(1)?)),
        HVECTOR | HVECTOR_INTEGER => {
            Blocks::Bytes(strided(*arguments.addresses.first()? as isize, integer(1)?))
        }
        INDEXED => Blocks::Elements(zip(integers(1)?, offsets(1 + count)?)),
        HINDEXED | HINDEXED_INTEGER => Blocks::Bytes(zip(integers(1)?, addresses().collect())),
        INDEXED_BLOCK => Blocks::Elements(of_equal_length(offsets(2)?)?),
        HINDEXED_BLOCK => Blocks::Bytes(of_equal_length(addresses().take(count).collect())?),
        STRUCT | STRUCT_INTEGER => Blocks::Each(zip(integers(1)?, addresses().collect())),
        SUBARRAY => Blocks::Elements(subarray(&arguments.integers, max_blocks)?),
        DARRAY => Blocks::Elements(darray(&arguments.integers, max_blocks)?),
        _ => return None,
    })
}

/// Axis of an array: its length, and the selected ranges as (start, length).
type Axis = (isize, Vec<(isize, usize)>);

/// Returns the rows of a subarray.
fn subarray(integers: &[i64], max_blocks: usize) -> Option<Vec<(isize, usize)>> {
    let dimensions = usize::try_from(*integers.first()?).ok()?;
    let array = |at: usize| integers.get(1 + at * dimensions..1 + (at + 1) * dimensions);
    let (sizes, lengths, starts) = (array(0)?, array(1)?, array(2)?);
    let axis = |axis: usize| -> Axis {
        let selected = (starts[axis] as isize, lengths[axis].max(0) as usize);
        (sizes[axis] as isize, vec![selected])
    };
    rows(
        (0..dimensions).map(axis).collect(),
        *integers.get(1 + 3 * dimensions)?,
        max_blocks,
    )
}

/// Returns the rows of one process's part of a distributed array (MPI 4.1, 5.1.4).
fn darray(integers: &[i64], max_blocks: usize) -> Option<Vec<(isize, usize)>> {
    let (rank, dimensions) = (
        *integers.get(1)? as isize,
        usize::try_from(*integers.get(2)?).ok()?,
    );
    let array = |at: usize| integers.get(3 + at * dimensions..3 + (at + 1) * dimensions);
    let (sizes, distributions, arguments, processes) = (array(0)?, array(1)?, array(2)?, array(3)?);
    let axis = |axis: usize| -> Option<Axis> {
        let (size, count) = (sizes[axis] as isize, processes[axis].max(1) as isize);
        let later_processes = processes[axis + 1..].iter().map(|&count| count as isize);
        // Coordinate of this process in the grid of processes.
        let own = rank / later_processes.product::<isize>().max(1) % count;
        let length_or = |default: isize| match arguments[axis] {
            DEFAULT_ARGUMENT => default,
            length => length.max(1) as isize,
        };
        // Length of a block, and distance from one block of this process to the next.
        let (length, step) = match distributions[axis] {
            BLOCK => (length_or((size + count - 1) / count), size.max(1)),
            CYCLIC => (length_or(1), length_or(1) * count),
            _ => (size, size.max(1)),
        };
        let begins = (own * length..size).step_by(step as usize);
        if begins.size_hint().0 > max_blocks {
            return None;
        }
        let selected = begins.map(|begin| (begin, length.min(size - begin) as usize));
        Some((size, selected.collect()))
    };
    rows(
        (0..dimensions).map(axis).collect::<Option<_>>()?,
        *integers.get(3 + 4 * dimensions)?,
        max_blocks,
    )
}

/// Splits the selected part of an array into rows along the contiguous axis.
fn rows(mut axes: Vec<Axis>, order: i64, max_blocks: usize) -> Option<Vec<(isize, usize)>> {
    // From here, the last axis is the contiguous one.
    if order != ORDER_C {
        axes.reverse();
    }
    let (inner, outer) = axes.split_last()?;
    let (mut rows, mut stride) = (inner.1.clone(), inner.0);
    for (size, selected) in outer.iter().rev() {
        let count: usize = selected.iter().map(|(_, length)| length).sum();
        if rows.len().saturating_mul(count) > max_blocks {
            return None;
        }
        let positions = selected
            .iter()
            .flat_map(|&(begin, length)| begin..begin + length as isize);
        rows = positions
            .flat_map(|at| {
                rows.iter()
                    .map(move |&(row, length)| (at * stride + row, length))
                    .collect::<Vec<_>>()
            })
            .collect();
        stride *= size;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(recipe: &Recipe) -> Option<Blocks> {
        super::blocks(recipe, 1 << 10)
    }

    fn recipe(combiner: i32, integers: &[i64], addresses: &[i64]) -> Recipe {
        Recipe {
            combiner,
            integers: integers.iter().map(|&integer| integer as i32).collect(),
            addresses: addresses.to_vec(),
            counts: Vec::new(),
            contained: vec![0],
        }
    }

    /// Returns the recipe that a procedure with large counts creates.
    fn large(combiner: i32, integers: &[i64], counts: &[i64]) -> Recipe {
        Recipe {
            counts: counts.to_vec(),
            ..recipe(combiner, integers, &[])
        }
    }

    #[test]
    fn large_counts_give_equal_blocks() {
        let far = 1 << 40;
        let pairs = [
            (recipe(CONTIGUOUS, &[3], &[]), large(CONTIGUOUS, &[], &[3])),
            (
                recipe(VECTOR, &[3, 2, 5], &[]),
                large(VECTOR, &[], &[3, 2, 5]),
            ),
            (
                recipe(HVECTOR, &[2, 1], &[far]),
                large(HVECTOR, &[], &[2, 1, far]),
            ),
            (
                recipe(INDEXED, &[2, 1, 3, 7, 9], &[]),
                large(INDEXED, &[], &[2, 1, 3, 7, 9]),
            ),
            (
                recipe(HINDEXED, &[2, 1, 3], &[0, far]),
                large(HINDEXED, &[], &[2, 1, 3, 0, far]),
            ),
            (
                recipe(INDEXED_BLOCK, &[2, 4, 7, 9], &[]),
                large(INDEXED_BLOCK, &[], &[2, 4, 7, 9]),
            ),
            (
                recipe(HINDEXED_BLOCK, &[2, 4], &[0, far]),
                large(HINDEXED_BLOCK, &[], &[2, 4, 0, far]),
            ),
            (
                recipe(STRUCT, &[2, 1, 3], &[0, far]),
                large(STRUCT, &[], &[2, 1, 3, 0, far]),
            ),
            (
                recipe(SUBARRAY, &[2, 4, 5, 2, 3, 1, 1, ORDER_C], &[]),
                large(SUBARRAY, &[2, ORDER_C], &[4, 5, 2, 3, 1, 1]),
            ),
            (
                recipe(DARRAY, &[4, 1, 2, 5, 7, 0, 1, -1, 2, 2, 2, ORDER_C], &[]),
                large(DARRAY, &[4, 1, 2, 0, 1, -1, 2, 2, 2, ORDER_C], &[5, 7]),
            ),
            (
                recipe(RESIZED, &[], &[-8, far]),
                large(RESIZED, &[], &[-8, far]),
            ),
        ];
        for (few, many) in pairs {
            assert!(blocks(&few).is_some(), "{few:?}");
            assert_eq!(blocks(&few), blocks(&many), "{many:?}");
        }
    }

    #[test]
    fn missing_arguments_give_no_blocks() {
        for combiner in [HINDEXED, STRUCT, INDEXED, HINDEXED_BLOCK, SUBARRAY, DARRAY] {
            assert_eq!(blocks(&large(combiner, &[], &[3])), None, "{combiner}");
        }
    }

    #[test]
    fn vectors_have_a_stride() {
        let vector = blocks(&recipe(VECTOR, &[3, 2, 5], &[]));
        assert_eq!(
            vector,
            Some(Blocks::Elements(vec![(0, 2), (5, 2), (10, 2)]))
        );
        let bytes = blocks(&recipe(HVECTOR, &[2, 1], &[24]));
        assert_eq!(bytes, Some(Blocks::Bytes(vec![(0, 1), (24, 1)])));
    }

    #[test]
    fn structures_have_lengths_and_offsets() {
        let structure = blocks(&recipe(STRUCT, &[2, 1, 3], &[0, 16]));
        assert_eq!(structure, Some(Blocks::Each(vec![(0, 1), (16, 3)])));
    }

    #[test]
    fn subarrays_are_rows() {
        // A 2 x 3 part at (1, 1) of a 4 x 5 array.
        let in_c = blocks(&recipe(SUBARRAY, &[2, 4, 5, 2, 3, 1, 1, ORDER_C], &[]));
        assert_eq!(in_c, Some(Blocks::Elements(vec![(6, 3), (11, 3)])));
        let in_fortran = blocks(&recipe(SUBARRAY, &[2, 5, 4, 3, 2, 1, 1, 1], &[]));
        assert_eq!(in_fortran, in_c);
    }

    #[test]
    fn the_limit_counts_the_blocks_of_one_process() {
        let cyclic = |processes: i64, size: i64| {
            let integers = [
                processes,
                0,
                1,
                CYCLIC,
                DEFAULT_ARGUMENT,
                processes,
                ORDER_C,
            ];
            super::blocks(&large(DARRAY, &integers, &[size]), 4)
        };
        // Process 0 of 2 has every second element.
        let every_second = vec![(0, 1), (2, 1), (4, 1), (6, 1)];
        assert_eq!(cyclic(2, 8), Some(Blocks::Elements(every_second)));
        assert_eq!(cyclic(2, 10), None);
        assert_eq!(cyclic(2, 1 << 60), None);
        assert_eq!(cyclic(1000, 8), Some(Blocks::Elements(vec![(0, 1)])));
    }

    #[test]
    fn distributed_arrays_are_dealt_out() {
        // 5 x 7 elements on 2 x 2 processes: blocks of 3 rows, and columns in cyclic pairs.
        let own_rows = |rank| {
            blocks(&recipe(
                DARRAY,
                &[4, rank, 2, 5, 7, BLOCK, CYCLIC, -1, 2, 2, 2, ORDER_C],
                &[],
            ))
        };
        let rows = |rows: &[isize], columns: &[(isize, usize)]| {
            let all = rows.iter().flat_map(|row| {
                columns
                    .iter()
                    .map(move |&(at, length)| (row * 7 + at, length))
            });
            Some(Blocks::Elements(all.collect()))
        };
        assert_eq!(own_rows(0), rows(&[0, 1, 2], &[(0, 2), (4, 2)]));
        assert_eq!(own_rows(1), rows(&[0, 1, 2], &[(2, 2), (6, 1)]));
        assert_eq!(own_rows(2), rows(&[3, 4], &[(0, 2), (4, 2)]));
        assert_eq!(own_rows(3), rows(&[3, 4], &[(2, 2), (6, 1)]));
    }
}
