//! Messages between the processes of a job: ranks, guardians and managers.
//!
//! Only types are here; `understudy-wire` sends and receives them.
#![forbid(unsafe_code)]

mod child;
mod ended;
mod from_guardian;
mod hello;
mod job_order;
mod to_guardian;
mod to_manager;
mod to_process;

pub use child::{ChildNews, ChildProgram, ChildStart};
pub use ended::{Ended, Killer};
pub use from_guardian::{Call, FromGuardian, Has};
pub use hello::Hello;
pub use job_order::{GenerationStart, JobOrder};
pub use to_guardian::ToGuardian;
pub use to_manager::ToManager;
pub use to_process::{Boards, ToProcess};
