//! Cuts: consistent global states on which all workers agree.
//!
//! A cut is taken (`take`) at a cut point (`candidate`), or, if cut points are rare, at any
//! communication call (`anywhere`). Threads enter collectives (`together`) and constructors
//! (`assemble`) in an order that all processes agree on.

mod agree;
mod anywhere;
mod assemble;
mod candidate;
mod leave;
mod requested;
mod shared_mappings;
mod shortage;
mod take;
mod together;

pub use anywhere::{enter_waiting_call, here, leave_at_end, leave_by_call, meanwhile};
pub use assemble::assemble;
pub use candidate::{collective, finish, point, requested, withdraw};
pub use take::take;
pub use together::together;
