//! `ckptd launch`: starts the guardians of a job, as mpirun would.

mod agent;
mod allocation;
mod batch_command;
mod forwarded_signals;
mod host_message;
mod hosts;
mod launch_job;
mod node_releases;
mod node_share;
mod plan;
mod remote_host;
mod several_hosts;
mod slurm;
mod slurm_lists;

pub use agent::Agent;
pub use allocation::BatchSystem;
pub use batch_command::{batch_command, output_of};
pub use forwarded_signals::FORWARDED;
#[cfg(any(test, fuzzing))]
pub(crate) use host_message::{Assignment, StarterToHost};
#[cfg(any(test, fuzzing))]
pub(crate) use hosts::hosts_of_text;
pub use hosts::{Host, RankOrder, assign_ranks, hosts_of_file, hosts_of_list, total_slots};
pub use launch_job::run;
pub use plan::Plan;
pub use remote_host::run_on_host;
pub use several_hosts::is_this_host;
pub use slurm::{SlurmJob, leaf_switches};
