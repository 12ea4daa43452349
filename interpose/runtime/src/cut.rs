//! Cuts: consistent global states on which all workers agree.
//!
//! A cut is taken (`take`) at a candidate (`candidate`), or, if candidates are rare, at any call
//! (`anywhere`). Threads enter collectives (`together`) and constructors (`assemble`) in an order
//! that all processes agree on.

mod agree;
mod anywhere;
mod assemble;
mod candidate;
mod shared_mappings;
mod shortage;
mod take;
mod together;

pub use anywhere::{enter_waiting_call, here, leave_at_end, leave_by_call, meanwhile};
pub use assemble::assemble;
pub use candidate::{collective, finish, point, requested, withdraw};
pub use take::take;
pub use together::together;
