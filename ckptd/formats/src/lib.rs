//! Formats and rules that the ranks' library shares with the tools.
//!
//! * [`checkpoint_interval`], [`failure_rate`]: optimal intervals, and the rate of failures;
//! * [`budget`], [`cgroup`]: memory that a node and its control groups have left;
//! * [`cuda_driver`]: functions of NVIDIA's driver;
//! * [`describe`]: records as trees of names and values;
//! * [`duration`]: durations in settings and warnings;
//! * [`epochs`], [`pages`]: checkpoint files on disk, and lists of pages;
//! * [`events`]: the event file of each rank, and its reader;
//! * [`function_names`]: functions at addresses of ELF files, and their names in the source;
//! * [`host`]: the name of the host;
//! * [`network_devices`]: devices that write into memory by themselves;
//! * [`private_directories`]: directories of one user, in memory and elsewhere;
//! * [`proc_file`], [`proc_maps`], [`proc_stat`]: readers of files in /proc;
//! * [`process_segments`]: shared memory that libraries name after a process;
//! * [`warning`]: warnings of expected failures;
//! * [`worker_output`]: files with the standard output of workers.

pub mod budget;
pub mod cgroup;
pub mod checkpoint_interval;
pub mod cuda_driver;
pub mod describe;
pub mod duration;
pub mod epochs;
pub mod events;
pub mod failure_rate;
pub mod function_names;
pub mod host;
pub mod network_devices;
pub mod pages;
pub mod private_directories;
pub mod proc_file;
pub mod proc_maps;
pub mod proc_stat;
pub mod process_segments;
pub mod warning;
pub mod worker_output;
