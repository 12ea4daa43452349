//! The process managers, the daemon and the reports behind the programs `ckptd` and `understudy`.
//!
//! * [`launch`]: starts the ranks of a job and replaces those that fail;
//! * [`daemon`]: `ckptd serve`; [`pool`]: the spares of a node's jobs, as a state machine;
//! * [`path`]: programs by their names; [`manual`]: pages of the manual;
//! * [`report`]: the merged view of a job's event files behind `understudy events`.

pub mod daemon;
pub mod launch;
pub mod manual;
pub mod path;
pub mod pool;
pub mod report;
