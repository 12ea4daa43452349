//! Exports of MPICH's libmpi in addition to the procedures of the call table.
//!
//! Procedures for large counts (MPI_Send_c and others) are generated (`additions`). They call the
//! thunks of the corresponding procedures with counts of type `int`, and the runtime implements
//! only the latter procedures. `large` contains the functions that the generated code uses,
//! `by_hand` the procedures that are not generated.

mod additions;
mod by_hand;
mod constants;
#[cfg(not(feature = "standard"))]
mod language;
mod large;
mod refusal;

use refusal::refuse;
