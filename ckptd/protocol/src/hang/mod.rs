//! Detection of processes that stand still, and of jobs in which nothing moves.
//!
//! A guardian samples each of its processes and judges it alone ([`ProcessWatch`]). The leader
//! receives the states of inactive processes and judges the job ([`JobWatch`]).

mod job_watch;
mod process_watch;

pub use job_watch::{HangAction, JobWatch};
pub use process_watch::{
    CallSample, HangLimits, InactivityKind, ProcessSample, ProcessState, ProcessWatch,
};
