//! Detection of inactive processes, and of jobs that hang.
//!
//! A guardian samples its processes, and decides for each process whether that process is inactive
//! ([`ProcessWatch`]). The leader receives the states of inactive processes, and decides whether
//! the job hangs ([`JobWatch`]).

mod job_watch;
mod process_watch;

pub use job_watch::{HangAction, JobWatch};
pub use process_watch::{
    CallSample, HangLimits, InactivityKind, ProcessSample, ProcessState, ProcessWatch,
};
