//! What a job's process manager decides: a state machine with events in and actions out.
//!
//! ```text
//!   start:  W + S guardians; each starts a process of the program; all say Ready(0)
//!   begin:  a generation of W processes is made known to their MPI; each gets its rank; the others, the spares, wait
//!   death:  generation + 1 is announced; who is inside MPI is interrupted, and says Ready again
//!           (a spare comes in for each of the dead; a new process is started if there would be less than W)
//!   end:    W workers say AtEnd; all are told End; from then on only exit statuses count
//! ```
//!
//! What a dead process has handed over, only a process of its node can inherit: one is started
//! there if there is none.
//!
//! A manager that dies is followed by another one, which learns from the guardians what there is,
//! and begins the next generation.
//!
//! Whatever dies, and whenever, the next generation is the answer. The job ends early if the
//! program does (a process exits by itself before the end, or asks for an abort), or if nobody is
//! left who knows the job, and no copies.
//!
//! There are no sockets here, no clock, no MPI: time is passed in, and `tests/simulator` plays all
//! the rest.
#![forbid(unsafe_code)]

mod action;
mod event;
mod job;
mod member;

pub use action::{Action, Beginning};
pub use event::{Domain, Ending, Event, Known, Node};
pub use job::{GATHERING, Job, LOST};
pub use understudy_messages::{GenerationStart, JobOrder, ToGuardian, ToManager};
pub use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};
