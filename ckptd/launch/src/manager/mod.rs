//! The manager of a job on a node.
//!
//! The manager has the processes and guardians of the node and the servers of the MPI library. It
//! contains the leader or is connected to it.

mod begun_generation;
mod boards;
mod bypass;
mod clean_up;
mod follower;
mod generations;
mod guardian_messages;
mod guardian_silences;
mod interrupts;
mod manage;
mod memory_report;
mod node;
mod node_events;
mod node_fence;
mod node_queue;
mod orders;
mod owned_directory;
mod process;
mod repeated_reports;
mod segments;
mod servers;
mod spawned_events;
mod spawned_groups;
mod spawned_start;
mod takeover;
mod takeover_reports;

#[cfg(test)]
pub use follower::Follower;
pub use manage::manage;
