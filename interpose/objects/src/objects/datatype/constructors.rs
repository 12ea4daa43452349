//! Constructors of datatypes: `MPI_COMBINER_…`.

pub(super) const NAMED: i32 = 0;
pub(super) const DUP: i32 = 1;
pub(super) const CONTIGUOUS: i32 = 2;
pub(super) const VECTOR: i32 = 3;
pub(super) const HVECTOR_INTEGER: i32 = 4;
pub(super) const HVECTOR: i32 = 5;
pub(super) const INDEXED: i32 = 6;
pub(super) const HINDEXED_INTEGER: i32 = 7;
pub(super) const HINDEXED: i32 = 8;
pub(super) const INDEXED_BLOCK: i32 = 9;
pub(super) const STRUCT_INTEGER: i32 = 10;
pub(super) const STRUCT: i32 = 11;
pub(super) const SUBARRAY: i32 = 12;
pub(super) const DARRAY: i32 = 13;
pub(super) const F90_REAL: i32 = 14;
pub(super) const F90_COMPLEX: i32 = 15;
pub(super) const F90_INTEGER: i32 = 16;
pub(super) const RESIZED: i32 = 17;
pub(super) const HINDEXED_BLOCK: i32 = 18;
