//! What the arguments of a datatype's constructor mean for the place of its data (MPI 4.1, 5.1.2 to 5.1.13).

use super::Recipe;
use super::build::{
    CONTIGUOUS, DARRAY, DUP, HINDEXED, HINDEXED_BLOCK, HINDEXED_INTEGER, HVECTOR, HVECTOR_INTEGER, INDEXED,
    INDEXED_BLOCK, RESIZED, STRUCT, STRUCT_INTEGER, SUBARRAY, VECTOR,
};

/// Blocks of elements: where each begins, and how many elements it has.
#[derive(Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Of one datatype, at offsets in bytes.
    Same(Vec<(isize, usize)>),
    /// Of one datatype, at offsets in elements.
    Elements(Vec<(isize, usize)>),
    /// Each of the datatype with the same number, at offsets in bytes.
    Each(Vec<(isize, usize)>),
}

/// `MPI_ORDER_C`
const ORDER_C: i32 = 0;
/// `MPI_DISTRIBUTE_BLOCK`
const BLOCK: i32 = 0;
/// `MPI_DISTRIBUTE_CYCLIC`
const CYCLIC: i32 = 1;
/// `MPI_DISTRIBUTE_DFLT_DARG`
const DEFAULT_ARGUMENT: i32 = -1;

/// The blocks that a datatype is made of; `None` for constructors that are not known here, and for more blocks than `most`.
pub fn blocks(recipe: &Recipe, most: usize) -> Option<Blocks> {
    let integer = |at: usize| Some(*recipe.integers.get(at)? as isize);
    let lengths = |at: usize, count: usize| recipe.integers.get(at..at + count);
    let count = recipe.integers.first().map_or(0, |&count| count.max(0) as usize);
    if count > most {
        return None;
    }
    let addresses = || recipe.addresses.iter().map(|&address| address as isize);
    let zip = |lengths: &[i32], offsets: Vec<isize>| -> Vec<(isize, usize)> {
        let lengths = lengths.iter().map(|&length| length.max(0) as usize);
        offsets.into_iter().zip(lengths).collect()
    };
    let strided = |stride: isize, length: isize| -> Vec<(isize, usize)> {
        (0..count as isize)
            .map(|block| (block * stride, length.max(0) as usize))
            .collect()
    };
    let integers = |at: usize| {
        Some(
            lengths(at, count)?
                .iter()
                .map(|&value| value as isize)
                .collect::<Vec<_>>(),
        )
    };
    Some(match recipe.combiner {
        DUP | RESIZED => Blocks::Same(vec![(0, 1)]),
        CONTIGUOUS => Blocks::Same(vec![(0, count)]),
        VECTOR => Blocks::Elements(strided(integer(2)?, integer(1)?)),
        HVECTOR | HVECTOR_INTEGER => Blocks::Same(strided(*recipe.addresses.first()? as isize, integer(1)?)),
        INDEXED => Blocks::Elements(zip(lengths(1, count)?, integers(1 + count)?)),
        HINDEXED | HINDEXED_INTEGER => Blocks::Same(zip(lengths(1, count)?, addresses().collect())),
        INDEXED_BLOCK => Blocks::Elements(zip(&vec![integer(1)? as i32; count], integers(2)?)),
        HINDEXED_BLOCK => Blocks::Same(zip(&vec![integer(1)? as i32; count], addresses().collect())),
        STRUCT | STRUCT_INTEGER => Blocks::Each(zip(lengths(1, count)?, addresses().collect())),
        SUBARRAY => Blocks::Elements(subarray(&recipe.integers, most)?),
        DARRAY => Blocks::Elements(darray(&recipe.integers, most)?),
        _ => return None,
    })
}

/// Bounds that the constructor's arguments say, whatever the data.
#[derive(Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Lower bound and extent in bytes.
    Bytes(isize, isize),
    /// From 0, so many elements.
    Elements(isize),
}

/// The bounds of a datatype, if they do not follow from its blocks.
pub fn bounds(recipe: &Recipe) -> Option<Bounds> {
    let array = |first: usize, dimensions: usize| {
        let sizes = recipe.integers.get(first..)?.get(..dimensions)?;
        Some(Bounds::Elements(sizes.iter().map(|&size| size as isize).product()))
    };
    let dimensions = |at: usize| usize::try_from(*recipe.integers.get(at)?).ok();
    match recipe.combiner {
        RESIZED => Some(Bounds::Bytes(
            *recipe.addresses.first()? as isize,
            *recipe.addresses.get(1)? as isize,
        )),
        SUBARRAY => array(1, dimensions(0)?),
        DARRAY => array(3, dimensions(2)?),
        _ => None,
    }
}

/// An axis of an array: its length, and which of its elements are taken, as begins and lengths.
type Axis = (isize, Vec<(isize, usize)>);

/// The rows of a subarray.
fn subarray(integers: &[i32], most: usize) -> Option<Vec<(isize, usize)>> {
    let dimensions = usize::try_from(*integers.first()?).ok()?;
    let part = |at: usize| integers.get(1 + at * dimensions..1 + (at + 1) * dimensions);
    let (sizes, lengths, starts) = (part(0)?, part(1)?, part(2)?);
    let axis = |axis: usize| -> Axis {
        let taken = (starts[axis] as isize, lengths[axis].max(0) as usize);
        (sizes[axis] as isize, vec![taken])
    };
    rows(
        (0..dimensions).map(axis).collect(),
        *integers.get(1 + 3 * dimensions)?,
        most,
    )
}

/// The rows of one process's part of a distributed array (MPI 4.1, 5.1.4).
fn darray(integers: &[i32], most: usize) -> Option<Vec<(isize, usize)>> {
    let (rank, dimensions) = (*integers.get(1)? as isize, usize::try_from(*integers.get(2)?).ok()?);
    let part = |at: usize| integers.get(3 + at * dimensions..3 + (at + 1) * dimensions);
    let (sizes, ways, arguments, processes) = (part(0)?, part(1)?, part(2)?, part(3)?);
    let axis = |axis: usize| -> Axis {
        let (size, count) = (sizes[axis] as isize, processes[axis].max(1) as isize);
        let after: isize = processes[axis + 1..].iter().map(|&count| count as isize).product();
        let own = rank / after.max(1) % count;
        let block = |default: isize| match arguments[axis] {
            DEFAULT_ARGUMENT => default,
            block => block.max(1) as isize,
        };
        let (block, step) = match ways[axis] {
            BLOCK => (block((size + count - 1) / count), size.max(1)),
            CYCLIC => (block(1), block(1) * count),
            _ => (size, size.max(1)),
        };
        let begins = (own * block..size).step_by(step as usize);
        let taken = begins.map(|begin| (begin, block.min(size - begin) as usize));
        (size, taken.collect())
    };
    rows(
        (0..dimensions).map(axis).collect(),
        *integers.get(3 + 4 * dimensions)?,
        most,
    )
}

/// What is taken of an array, in pieces along the axis whose elements are neighbours.
fn rows(mut axes: Vec<Axis>, order: i32, most: usize) -> Option<Vec<(isize, usize)>> {
    // From here the last axis is the one whose elements are neighbours.
    if order != ORDER_C {
        axes.reverse();
    }
    let (inner, outer) = axes.split_last()?;
    let (mut rows, mut stride) = (inner.1.clone(), inner.0);
    for (size, taken) in outer.iter().rev() {
        let count: usize = taken.iter().map(|(_, length)| length).sum();
        if rows.len().saturating_mul(count) > most {
            return None;
        }
        let places = taken.iter().flat_map(|&(begin, length)| begin..begin + length as isize);
        rows = places
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

    fn recipe(combiner: i32, integers: &[i32], addresses: &[i64]) -> Recipe {
        Recipe {
            combiner,
            integers: integers.to_vec(),
            addresses: addresses.to_vec(),
            contained: vec![0],
        }
    }

    #[test]
    fn vectors_have_a_stride() {
        let vector = blocks(&recipe(VECTOR, &[3, 2, 5], &[]));
        assert_eq!(vector, Some(Blocks::Elements(vec![(0, 2), (5, 2), (10, 2)])));
        let bytes = blocks(&recipe(HVECTOR, &[2, 1], &[24]));
        assert_eq!(bytes, Some(Blocks::Same(vec![(0, 1), (24, 1)])));
    }

    #[test]
    fn structures_have_lengths_and_places() {
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
    fn arrays_are_as_long_as_the_whole() {
        let part = recipe(SUBARRAY, &[2, 4, 5, 2, 3, 1, 1, ORDER_C], &[]);
        assert_eq!(bounds(&part), Some(Bounds::Elements(20)));
        let dealt = recipe(DARRAY, &[4, 0, 2, 5, 7, BLOCK, CYCLIC, -1, 2, 2, 2, ORDER_C], &[]);
        assert_eq!(bounds(&dealt), Some(Bounds::Elements(35)));
        assert_eq!(bounds(&recipe(RESIZED, &[], &[-8, 24])), Some(Bounds::Bytes(-8, 24)));
        assert_eq!(bounds(&recipe(VECTOR, &[3, 2, 5], &[])), None);
    }

    #[test]
    fn distributed_arrays_are_dealt_out() {
        // 5 x 7 elements on 2 x 2 processes: blocks of 3 rows, columns by twos.
        let part = |rank| {
            blocks(&recipe(
                DARRAY,
                &[4, rank, 2, 5, 7, BLOCK, CYCLIC, -1, 2, 2, 2, ORDER_C],
                &[],
            ))
        };
        let rows = |rows: &[isize], columns: &[(isize, usize)]| {
            let all = rows
                .iter()
                .flat_map(|row| columns.iter().map(move |&(at, length)| (row * 7 + at, length)));
            Some(Blocks::Elements(all.collect()))
        };
        assert_eq!(part(0), rows(&[0, 1, 2], &[(0, 2), (4, 2)]));
        assert_eq!(part(1), rows(&[0, 1, 2], &[(2, 2), (6, 1)]));
        assert_eq!(part(2), rows(&[3, 4], &[(0, 2), (4, 2)]));
        assert_eq!(part(3), rows(&[3, 4], &[(2, 2), (6, 1)]));
    }
}
