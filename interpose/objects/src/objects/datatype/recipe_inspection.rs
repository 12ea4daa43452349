//! Inspection of a real datatype's constructor.
//!
//! `MPI_Type_get_contents` (5.1.13) reports the arguments of the constructor. In place of derived
//! datatypes it returns duplicates, for which the program has no handles. The recipe therefore
//! refers to the datatypes that the program has passed to the constructor.
#![allow(unsafe_code)]

use super::real_datatypes::{check, null_handle, null_real, virtual_of};
use super::recipe::{CountSize, Recipe};
use crate::Runtime;
use crate::errors::ERR_INTERN;
use crate::generated::real;
use crate::handles::VirtDatatype;
use std::ffi::c_int;
use understudy_mpi::real_types::RealDatatype;

/// Constructor of a datatype, and the number of its arguments of each kind.
#[derive(Default)]
struct Envelope {
    combiner: c_int,
    integers: usize,
    addresses: usize,
    counts: usize,
    datatypes: usize,
}

fn envelope(datatype: RealDatatype, counts: CountSize) -> Result<Envelope, c_int> {
    let (mut combiner, mut lengths, mut large_lengths) = (0, [0; 3], [0; 4]);
    let length = |length: i64| usize::try_from(length).map_err(|_| ERR_INTERN);
    if counts == CountSize::Large {
        let [integers, addresses, counts, datatypes] = &mut large_lengths;
        // SAFETY: a datatype that a library with procedures for large counts has just created, and
        // variables for the results.
        check(unsafe {
            real::PMPI_Type_get_envelope_c(
                datatype,
                integers,
                addresses,
                counts,
                datatypes,
                &mut combiner,
            )
        })?;
    } else {
        let [integers, addresses, datatypes] = &mut lengths;
        // SAFETY: a datatype that the library has just created, and variables for the results.
        check(unsafe {
            real::PMPI_Type_get_envelope(datatype, integers, addresses, datatypes, &mut combiner)
        })?;
        let [integers, addresses, datatypes] = lengths.map(i64::from);
        large_lengths = [integers, addresses, 0, datatypes];
    }
    Ok(Envelope {
        combiner,
        integers: length(large_lengths[0])?,
        addresses: length(large_lengths[1])?,
        counts: length(large_lengths[2])?,
        datatypes: length(large_lengths[3])?,
    })
}

/// Reads a new real datatype's constructor and arguments.
///
/// `contained` are the datatypes from which it was created.
pub(super) fn inspect(
    rt: &Runtime,
    datatype: RealDatatype,
    contained: &[VirtDatatype],
    counts: CountSize,
) -> Result<Recipe, c_int> {
    let envelope = envelope(datatype, counts)?;
    let bases = contained.get(..envelope.datatypes).ok_or(ERR_INTERN)?;
    let mut recipe = Recipe {
        combiner: envelope.combiner,
        integers: vec![0; envelope.integers],
        addresses: vec![0; envelope.addresses],
        counts: vec![0; envelope.counts],
        contained: bases.iter().map(|base| base.0 as u64).collect(),
    };
    let mut reported = vec![RealDatatype(std::ptr::null_mut()); envelope.datatypes];
    check(read_contents(datatype, &mut recipe, &mut reported, counts))?;
    for mut duplicate in reported {
        if virtual_of(rt, duplicate) == null_handle(rt)
            && !duplicate.0.is_null()
            && duplicate != null_real(rt)
        {
            // SAFETY: a duplicate that the real library has created for the runtime.
            unsafe { real::PMPI_Type_free(&mut duplicate) };
        }
    }
    Ok(recipe)
}

/// Fills the arrays, whose lengths the real library has reported.
fn read_contents(
    datatype: RealDatatype,
    recipe: &mut Recipe,
    reported: &mut [RealDatatype],
    counts: CountSize,
) -> c_int {
    let [integers, addresses, large, datatypes] = [
        recipe.integers.len(),
        recipe.addresses.len(),
        recipe.counts.len(),
        reported.len(),
    ];
    let (int, aint) = (
        recipe.integers.as_mut_ptr(),
        recipe.addresses.as_mut_ptr().cast::<isize>(),
    );
    let (count, reported) = (recipe.counts.as_mut_ptr(), reported.as_mut_ptr());
    // SAFETY: the arrays have the lengths that are passed.
    unsafe {
        if counts == CountSize::Large {
            let [integers, addresses, large, datatypes] =
                [integers, addresses, large, datatypes].map(|length| length as i64);
            return real::PMPI_Type_get_contents_c(
                datatype, integers, addresses, large, datatypes, int, aint, count, reported,
            );
        }
        let [integers, addresses, datatypes] =
            [integers, addresses, datatypes].map(|length| length as c_int);
        real::PMPI_Type_get_contents(
            datatype, integers, addresses, datatypes, int, aint, reported,
        )
    }
}
