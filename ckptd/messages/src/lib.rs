//! Messages between the processes of a job: ranks, guardians and managers.
//!
//! Only types are here; `understudy-wire` sends and receives them.
#![forbid(unsafe_code)]

mod activity;
mod from_guardian;
mod hello;
mod job_order;
mod process_end;
mod spawned_process;
mod to_guardian;
mod to_manager;
mod to_process;

pub use activity::{Activity, CallPlace, ProcessActivity, StackFrame};
pub use from_guardian::{FromGuardian, ProcessRecord, Registration};
pub use hello::{Hello, ReplaceAnswer, ReplaceTarget};
pub use job_order::{GenerationStart, JobOrder, NodeEnd};
pub use process_end::{Killer, ProcessEnd};
pub use spawned_process::{ChildProgram, ChildStart, ChildState};
pub use to_guardian::{ManagerRole, ToGuardian};
pub use to_manager::ToManager;
pub use to_process::{Boards, ToProcess};
