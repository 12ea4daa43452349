//! Exports of MPICH's libmpi besides the procedures of the call table.
//!
//! Procedures for large counts are generated (`additions`): they call the thunks of those for
//! counts that are an int, so that the runtime knows only these. `large` has their parts,
//! `by_hand` those that no rule makes.

mod additions;
mod by_hand;
mod constants;
#[cfg(not(feature = "standard"))]
mod language;
mod large;
mod refusal;

use refusal::refuse;
