//! A worker fails at any moment: a replacement takes over, and the results are equal.
//!
//! A job that cannot recover ends with a status other than 0 and a line that gives the cause.

mod aloof;
mod anywhere;
mod hangs;
mod kill_anywhere;
mod kill_inside;
mod limits;
mod stress;
mod sweep;
