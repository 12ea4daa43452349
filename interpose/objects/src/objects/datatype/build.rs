//! Creation of real datatypes from recipes.
#![allow(unsafe_code)]

use super::constructors::{
    CONTIGUOUS, DARRAY, DUP, F90_COMPLEX, F90_INTEGER, F90_REAL, HINDEXED, HINDEXED_BLOCK,
    HINDEXED_INTEGER, HVECTOR, HVECTOR_INTEGER, INDEXED, INDEXED_BLOCK, RESIZED, STRUCT,
    STRUCT_INTEGER, SUBARRAY, VECTOR,
};
use super::derived_datatype::Datatype;
use super::real_datatypes::{check, null_real, rename};
use super::recipe::Recipe;
use crate::Runtime;
use crate::errors::ERR_INTERN;
use crate::generated::real;
use crate::handles::{VirtDatatype, real_datatype};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::RealDatatype;

/// Creates the real datatype of an entry, committed and named as the entry says.
///
/// The datatypes from which it is derived must exist.
pub(super) fn make(rt: &Runtime, entry: &Datatype) -> Result<RealDatatype, c_int> {
    let mut new = construct(rt, &entry.recipe)?;
    if entry.committed {
        // SAFETY: `construct` has just created the datatype.
        check(unsafe { real::PMPI_Type_commit(&mut new) })?;
    }
    rename(new, &entry.name);
    Ok(new)
}

/// Arguments of a recipe, consumed in the order of MPI 4.1, 5.1.13.
struct RecipeArguments<'a, T>(&'a [T]);

impl<T: Copy> RecipeArguments<'_, T> {
    fn one(&mut self) -> Result<T, c_int> {
        let (&first, rest) = self.0.split_first().ok_or(ERR_INTERN)?;
        self.0 = rest;
        Ok(first)
    }

    fn array(&mut self, count: impl TryInto<usize>) -> Result<*const T, c_int> {
        let count = count.try_into().map_err(|_| ERR_INTERN)?;
        let (first, rest) = self.0.split_at_checked(count).ok_or(ERR_INTERN)?;
        self.0 = rest;
        Ok(first.as_ptr())
    }
}

/// Returns the address arguments; fails if there are fewer than `count`.
fn addresses(recipe: &Recipe, count: c_int) -> Result<*const isize, c_int> {
    let enough = usize::try_from(count).is_ok_and(|count| recipe.addresses.len() >= count);
    if enough {
        Ok(recipe.addresses.as_ptr().cast())
    } else {
        Err(ERR_INTERN)
    }
}

fn construct(rt: &Runtime, recipe: &Recipe) -> Result<RealDatatype, c_int> {
    let bases: Vec<RealDatatype> = recipe
        .contained
        .iter()
        .map(|&base| real_datatype(rt, VirtDatatype(base as *mut c_void)))
        .collect();
    if bases.iter().any(|base| base.0.is_null()) {
        return Err(ERR_INTERN);
    }
    if !recipe.counts.is_empty() {
        return construct_large(rt, recipe, &bases);
    }
    let old = bases.first().copied().ok_or(ERR_INTERN);
    let address = |at: usize| {
        recipe
            .addresses
            .get(at)
            .map(|&address| address as isize)
            .ok_or(ERR_INTERN)
    };
    let mut a = RecipeArguments(&recipe.integers);
    let mut new = null_real(rt);
    let to = &mut new;
    // SAFETY: the real library has created such a datatype with these arguments before; the lengths
    // of the arrays have been checked, and the datatypes are real.
    let rc = unsafe {
        match recipe.combiner {
            DUP => real::PMPI_Type_dup(old?, to),
            CONTIGUOUS => real::PMPI_Type_contiguous(a.one()?, old?, to),
            VECTOR => real::PMPI_Type_vector(a.one()?, a.one()?, a.one()?, old?, to),
            HVECTOR | HVECTOR_INTEGER => {
                real::PMPI_Type_create_hvector(a.one()?, a.one()?, address(0)?, old?, to)
            }
            INDEXED => {
                let count = a.one()?;
                real::PMPI_Type_indexed(count, a.array(count)?, a.array(count)?, old?, to)
            }
            HINDEXED | HINDEXED_INTEGER => {
                let count = a.one()?;
                real::PMPI_Type_create_hindexed(
                    count,
                    a.array(count)?,
                    addresses(recipe, count)?,
                    old?,
                    to,
                )
            }
            INDEXED_BLOCK => {
                let (count, length) = (a.one()?, a.one()?);
                real::PMPI_Type_create_indexed_block(count, length, a.array(count)?, old?, to)
            }
            HINDEXED_BLOCK => {
                let (count, length) = (a.one()?, a.one()?);
                real::PMPI_Type_create_hindexed_block(
                    count,
                    length,
                    addresses(recipe, count)?,
                    old?,
                    to,
                )
            }
            STRUCT | STRUCT_INTEGER => {
                let count = a.one()?;
                let (lengths, displacements) = (a.array(count)?, addresses(recipe, count)?);
                let bases = RecipeArguments(&bases).array(count)?;
                real::PMPI_Type_create_struct(count, lengths, displacements, bases, to)
            }
            SUBARRAY => {
                let n = a.one()?;
                let (sizes, subsizes, starts) = (a.array(n)?, a.array(n)?, a.array(n)?);
                real::PMPI_Type_create_subarray(n, sizes, subsizes, starts, a.one()?, old?, to)
            }
            DARRAY => {
                let (size, rank, n) = (a.one()?, a.one()?, a.one()?);
                let (gsizes, distribs, dargs, psizes) =
                    (a.array(n)?, a.array(n)?, a.array(n)?, a.array(n)?);
                let order = a.one()?;
                real::PMPI_Type_create_darray(
                    size, rank, n, gsizes, distribs, dargs, psizes, order, old?, to,
                )
            }
            RESIZED => real::PMPI_Type_create_resized(old?, address(0)?, address(1)?, to),
            F90_REAL => real::PMPI_Type_create_f90_real(a.one()?, a.one()?, to),
            F90_COMPLEX => real::PMPI_Type_create_f90_complex(a.one()?, a.one()?, to),
            F90_INTEGER => real::PMPI_Type_create_f90_integer(a.one()?, to),
            _ => return Err(ERR_INTERN),
        }
    };
    check(rc)?;
    Ok(new)
}

/// Constructs a datatype that a procedure with large counts has created.
fn construct_large(
    rt: &Runtime,
    recipe: &Recipe,
    bases: &[RealDatatype],
) -> Result<RealDatatype, c_int> {
    let old = bases.first().copied().ok_or(ERR_INTERN);
    let (mut a, mut c) = (
        RecipeArguments(&recipe.integers),
        RecipeArguments(&recipe.counts),
    );
    let mut new = null_real(rt);
    let to = &mut new;
    // SAFETY: the real library has created such a datatype with these arguments before; the
    // lengths of the arrays have been checked, and the datatypes are real.
    let rc = unsafe {
        match recipe.combiner {
            CONTIGUOUS => real::PMPI_Type_contiguous_c(c.one()?, old?, to),
            VECTOR => real::PMPI_Type_vector_c(c.one()?, c.one()?, c.one()?, old?, to),
            HVECTOR => real::PMPI_Type_create_hvector_c(c.one()?, c.one()?, c.one()?, old?, to),
            INDEXED => {
                let count = c.one()?;
                real::PMPI_Type_indexed_c(count, c.array(count)?, c.array(count)?, old?, to)
            }
            HINDEXED => {
                let count = c.one()?;
                real::PMPI_Type_create_hindexed_c(count, c.array(count)?, c.array(count)?, old?, to)
            }
            INDEXED_BLOCK => {
                let (count, length) = (c.one()?, c.one()?);
                real::PMPI_Type_create_indexed_block_c(count, length, c.array(count)?, old?, to)
            }
            HINDEXED_BLOCK => {
                let (count, length) = (c.one()?, c.one()?);
                real::PMPI_Type_create_hindexed_block_c(count, length, c.array(count)?, old?, to)
            }
            STRUCT => {
                let count = c.one()?;
                let bases = RecipeArguments(bases).array(count)?;
                real::PMPI_Type_create_struct_c(count, c.array(count)?, c.array(count)?, bases, to)
            }
            SUBARRAY => {
                let (n, order) = (a.one()?, a.one()?);
                let (sizes, subsizes, starts) = (c.array(n)?, c.array(n)?, c.array(n)?);
                real::PMPI_Type_create_subarray_c(n, sizes, subsizes, starts, order, old?, to)
            }
            DARRAY => {
                let (size, rank, n) = (a.one()?, a.one()?, a.one()?);
                let (distribs, dargs, psizes) = (a.array(n)?, a.array(n)?, a.array(n)?);
                let (gsizes, order) = (c.array(n)?, a.one()?);
                real::PMPI_Type_create_darray_c(
                    size, rank, n, gsizes, distribs, dargs, psizes, order, old?, to,
                )
            }
            RESIZED => real::PMPI_Type_create_resized_c(old?, c.one()?, c.one()?, to),
            _ => return Err(ERR_INTERN),
        }
    };
    check(rc)?;
    Ok(new)
}

/// Sorts datatypes so that each one follows the datatypes from which it is derived.
///
/// Each entry of `all` contains a datatype and the datatypes from which it is derived. The search
/// is depth-first, with an explicit path instead of recursion, since chains may be long. A datatype
/// is *entered* when the search reaches it for the first time. It is *sorted* when all datatypes
/// from which it is derived have been sorted.
pub(super) fn sort_by_dependency(all: &[(u32, Vec<u32>)]) -> Vec<u32> {
    let bases: BTreeMap<u32, &[u32]> = all
        .iter()
        .map(|(index, bases)| (*index, bases.as_slice()))
        .collect();
    // True for datatypes that are sorted, false for those that are only entered.
    let mut is_sorted: BTreeMap<u32, bool> = BTreeMap::new();
    let mut sorted = Vec::with_capacity(all.len());
    for &(root, _) in all {
        let mut path = vec![root];
        while let Some(&index) = path.last() {
            match is_sorted.get(&index) {
                Some(true) => {
                    path.pop();
                }
                // All bases that were pushed after this datatype have been sorted.
                Some(false) => {
                    is_sorted.insert(index, true);
                    sorted.push(index);
                    path.pop();
                }
                None => {
                    is_sorted.insert(index, false);
                    let bases = bases.get(&index).copied().unwrap_or_default();
                    path.extend(bases.iter().filter(|base| !is_sorted.contains_key(base)));
                }
            }
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::sort_by_dependency;

    #[test]
    fn datatypes_follow_their_bases() {
        // Index 0 was reused after 5 had been created, so datatype 0 is the most recent one.
        let all = vec![(0, vec![5, 5]), (1, vec![]), (4, vec![1, 0]), (5, vec![1])];
        assert_eq!(sort_by_dependency(&all), [1, 5, 0, 4]);
    }

    #[test]
    fn a_shared_base_occurs_once() {
        let all = vec![(0, vec![1, 2]), (1, vec![2]), (2, vec![])];
        assert_eq!(sort_by_dependency(&all), [2, 1, 0]);
    }

    #[test]
    fn long_chains_do_not_recurse() {
        let all: Vec<(u32, Vec<u32>)> =
            (0..100_000).map(|index| (index, vec![index + 1])).collect();
        assert_eq!(sort_by_dependency(&all).first(), Some(&100_000));
    }
}
