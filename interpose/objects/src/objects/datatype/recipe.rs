//! Recipes of datatypes: the constructor and its arguments (MPI 4.1, 5.1.13).

use super::constructors::{F90_COMPLEX, F90_INTEGER, F90_REAL, NAMED};
use crate::generated::HandleKind;
use crate::objects::lookup::created_index;
use std::ffi::c_void;

/// Constructor (`MPI_COMBINER_…`) and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Recipe {
    pub combiner: i32,
    /// Integer arguments, in the order of the standard.
    pub integers: Vec<i32>,
    /// Address arguments.
    pub addresses: Vec<i64>,
    /// `MPI_Count` arguments, which only procedures with large counts have.
    pub counts: Vec<i64>,
    /// Datatype arguments, as the program's handles.
    pub contained: Vec<u64>,
}

/// Size of a constructor's counts: `MPI_Count` for procedures with large counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountSize {
    Int,
    /// 64 bits.
    Large,
}

impl Recipe {
    /// Iterates over the created datatypes that the recipe refers to, with repetitions.
    pub(super) fn bases(&self) -> impl Iterator<Item = u32> + '_ {
        self.contained
            .iter()
            .filter_map(|&handle| created_index(HandleKind::Datatype, handle as *mut c_void))
    }

    /// True in the entry of a predefined datatype, which contains only name and attributes.
    pub(super) fn is_named(&self) -> bool {
        self.combiner == NAMED
    }

    /// True for a datatype by precision and range, which the program cannot free (19.1.5).
    pub(super) fn is_parameterised(&self) -> bool {
        [F90_REAL, F90_COMPLEX, F90_INTEGER].contains(&self.combiner)
    }
}
