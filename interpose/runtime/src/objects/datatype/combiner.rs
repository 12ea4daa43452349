//! What the arguments of a datatype's constructor mean for the place of its data (MPI 4.1, 5.1.2 to 5.1.13).

use super::Recipe;
use super::build::{
    CONTIGUOUS, DUP, HINDEXED, HINDEXED_BLOCK, HINDEXED_INTEGER, HVECTOR, HVECTOR_INTEGER, INDEXED, INDEXED_BLOCK,
    RESIZED, STRUCT, STRUCT_INTEGER, SUBARRAY, VECTOR,
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

/// More blocks than this are not worth a list.
const MOST_BLOCKS: usize = 1 << 16;
/// `MPI_ORDER_C`
const ORDER_C: i32 = 0;

/// The blocks that a datatype is made of; `None` for constructors that are not known here.
pub fn blocks(recipe: &Recipe) -> Option<Blocks> {
    let integer = |at: usize| Some(*recipe.integers.get(at)? as isize);
    let lengths = |at: usize, count: usize| recipe.integers.get(at..at + count);
    let count = recipe.integers.first().map_or(0, |&count| count.max(0) as usize);
    if count > MOST_BLOCKS {
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
        SUBARRAY => Blocks::Elements(subarray(&recipe.integers)?),
        _ => return None,
    })
}

/// The rows of a subarray.
fn subarray(integers: &[i32]) -> Option<Vec<(isize, usize)>> {
    let dimensions = usize::try_from(*integers.first()?).ok()?;
    let part = |at: usize| integers.get(1 + at * dimensions..1 + (at + 1) * dimensions);
    let mut axes: Vec<[isize; 3]> = (0..dimensions)
        .map(|axis| {
            Some([
                part(0)?[axis] as isize,
                part(1)?[axis] as isize,
                part(2)?[axis] as isize,
            ])
        })
        .collect::<Option<_>>()?;
    // From here the last axis is the one whose elements are neighbours.
    if *integers.get(1 + 3 * dimensions)? != ORDER_C {
        axes.reverse();
    }
    let (&[size, length, start], outer) = axes.split_last()?;
    let mut rows = vec![start];
    let mut stride = size;
    for &[size, length, start] in outer.iter().rev() {
        if rows.len().saturating_mul(length.max(0) as usize) > MOST_BLOCKS {
            return None;
        }
        rows = (start..start + length)
            .flat_map(|at| rows.iter().map(move |row| at * stride + row).collect::<Vec<_>>())
            .collect();
        stride *= size;
    }
    Some(rows.into_iter().map(|row| (row, length.max(0) as usize)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
