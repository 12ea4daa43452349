//! A replacement has the memory that the failed worker had at the checkpoint.
//!
//! Replicas may elide pages that a replay, a file, a function of the program or the buddy's own
//! replica restores, or that the program does not need.

mod journal;
mod journal_calls;
mod low_memory;
mod marks;
mod new_phase;
mod persistent_replicas;
mod recompute;
mod replay;
mod reversible;
mod shared_pages;
mod static_modes;
mod trial_replay;
