//! Exports of MPICH's libmpi in addition to the procedures of the call table.
//!
//! Procedures for large counts are generated (`additions`). They call the thunks of the procedures
//! with `int` counts, so the runtime needs only the latter. `large` has the functions that
//! generated code uses, `by_hand` the procedures that are not generated.

mod additions;
mod by_hand;
mod constants;
#[cfg(not(feature = "standard"))]
mod language;
mod large;
mod refusal;

use refusal::refuse;
