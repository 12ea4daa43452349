//! Formats and rules that the ranks' library shares with the tools.
//!
//! * [`advice`], [`rate`]: checkpoint intervals and failure rates;
//! * [`budget`], [`cgroup`]: available memory of a node;
//! * [`cuda`]: functions of NVIDIA's driver;
//! * [`describe`]: records as trees of names and values;
//! * [`epochs`], [`pages`]: files of the disk level, and lists of pages;
//! * [`events`]: the event file of each rank, and its reader;
//! * [`private`]: directories of one user, in memory and elsewhere;
//! * [`proc_file`], [`proc_stat`]: readers of files in /proc;
//! * [`warning`]: warnings of expected failures.

pub mod advice;
pub mod budget;
pub mod cgroup;
pub mod cuda;
pub mod describe;
pub mod epochs;
pub mod events;
pub mod pages;
pub mod private;
pub mod proc_file;
pub mod proc_stat;
pub mod rate;
pub mod warning;
