//! The reports behind the programs `ckptd` and `understudy`.
//!
//! * [`manual`]: pages of the manual;
//! * [`report`]: the merged view of a job's event files behind `understudy events`.

pub mod manual;
pub mod report;
