//! Detection of processes that stand still, and of jobs in which nothing moves.
//!
//! A guardian samples each of its processes and judges it alone ([`ProcessWatch`]). The leader
//! receives the states of inactive processes and judges the job ([`JobWatch`]). Managers await the
//! heartbeats of guardians, and the leader judges silent guardians ([`GuardianWatch`]).

mod guardian_watch;
mod job_watch;
mod process_watch;

pub use guardian_watch::{GuardianAction, GuardianSilence, GuardianWatch};
pub use job_watch::{HangAction, JobWatch};
pub use process_watch::{
    CallSample, HangLimits, InactivityKind, ProcessSample, ProcessState, ProcessWatch,
};
