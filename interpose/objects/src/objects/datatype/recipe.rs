//! Recipes of datatypes: the constructor and its arguments (MPI 4.1, 5.1.13).

use super::constructors::{F90_COMPLEX, F90_INTEGER, F90_REAL, NAMED};
use crate::generated::HandleKind;
use crate::objects::lookup::created;
use std::ffi::c_void;

/// A constructor (`MPI_COMBINER_…`) and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Recipe {
    pub combiner: i32,
    /// Its integer arguments in the standard's order.
    pub integers: Vec<i32>,
    /// Its address arguments.
    pub addresses: Vec<i64>,
    /// Its arguments that are `MPI_Count`: a procedure for large counts has made it.
    pub counts: Vec<i64>,
    /// Its datatype arguments: the program's handles.
    pub contained: Vec<u64>,
}

/// What the counts of a constructor are: those of a procedure for large counts are `MPI_Count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Int,
    /// 64 bits.
    Large,
}

impl Recipe {
    /// Created datatypes that it refers to; one that occurs twice comes twice.
    pub(super) fn bases(&self) -> impl Iterator<Item = u32> + '_ {
        self.contained
            .iter()
            .filter_map(|&handle| created(HandleKind::Datatype, handle as *mut c_void))
    }

    /// Whether it is a predefined datatype: the entry holds what the program has attached to that.
    pub(super) fn is_named(&self) -> bool {
        self.combiner == NAMED
    }

    /// Whether it is one that the program cannot free (19.1.5).
    pub(super) fn is_parameterised(&self) -> bool {
        [F90_REAL, F90_COMPLEX, F90_INTEGER].contains(&self.combiner)
    }
}
