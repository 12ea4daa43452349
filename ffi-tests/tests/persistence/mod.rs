//! A job that was killed as a whole continues from its disk level.
//!
//! Files that jobs leave can be inspected and removed; files in use are kept.

pub mod disk;
mod left_behind;
mod output_file;
mod owners;
pub mod restarted_job;
mod time_limits;
