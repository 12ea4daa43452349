//! `ckptd launch`: starts the guardians of a job, as mpirun would.

mod forwarded_signals;
mod host_message;
mod hosts;
mod launch_job;
mod node_share;
mod plan;
mod remote_host;
mod several_hosts;

pub use forwarded_signals::FORWARDED;
#[cfg(any(test, fuzzing))]
pub(crate) use host_message::{Assignment, StarterToHost};
pub use hosts::{Host, RankOrder, hosts_of_file, hosts_of_list, total_slots};
#[cfg(any(test, fuzzing))]
pub(crate) use hosts::{assign_ranks, hosts_of_text};
pub use launch_job::run;
pub use plan::Plan;
pub use remote_host::run_on_host;
