//! The leader of a job, in one of its managers.

mod exchange;
mod hub;
mod job_leader;
mod process_events;

pub use hub::{Hub, NodeChange};
pub use job_leader::{JobLeader, OWN_NODE};
