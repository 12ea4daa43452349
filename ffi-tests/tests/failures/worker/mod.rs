//! A worker fails at any moment: a replacement takes over, and the results are equal.
//!
//! The job ends with a status and a line that state so if no recovery is possible.

mod aloof;
mod anywhere;
mod kill_anywhere;
mod kill_inside;
mod limits;
mod stress;
mod sweep;
