//! The process managers, the daemon and the reports behind the programs `ckptd` and `understudy`.
//!
//! * [`daemon`]: `ckptd serve`; [`pool`]: the spares of a node's jobs, as a state machine;
//! * [`manual`]: pages of the manual;
//! * [`report`]: the merged view of a job's event files behind `understudy events`.

pub mod daemon;
pub mod manual;
pub mod pool;
pub mod report;
