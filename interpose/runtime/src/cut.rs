//! Cuts: consistent global states on which all workers agree.
//!
//! A cut is taken (`take`) at a candidate (`candidate`), or, if candidates are rare, at any call
//! (`anywhere`). Threads enter collectives (`together`) and constructors (`assemble`) in an order
//! that all processes agree on.

mod anywhere;
mod assemble;
mod candidate;
mod shortage;
mod take;
mod together;

pub use anywhere::{here, hold, leave_by_call, meanwhile, part};
pub use assemble::assemble;
pub use candidate::{collective, finish, point, wanted, withdraw};
pub use take::take;
pub use together::together;
