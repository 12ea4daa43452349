//! Decisions of a job's leader: a state machine with events in and actions out.
//!
//! ```text
//!   start:    W + S guardians join; each starts one process; all processes report Ready(0)
//!   begin:    a generation of W processes begins: the manager registers the ranks with the MPI
//!             library's server and gives each process its rank; the S spares wait
//!   failure:  generation + 1 is announced; processes inside MPI are interrupted and report Ready
//!             again; a spare replaces each dead process; a new process is started if there
//!             would be fewer than W
//!   end:      W workers report AtEnd; End is sent to all; from then on only exit statuses count
//! ```
//!
//! Only a process of the same node can adopt the replica store of a dead process. If the node has
//! no such process, one is started.
//!
//! A manager that dies is followed by another one. The guardians report their processes to the new
//! manager, which begins the next generation. On several nodes the leader begins again in the same
//! way when the manager of another node is replaced ([`Job::awaiting_reports`]).
//!
//! The death of a process is answered by the next generation, with these exceptions:
//!
//! * The death of an idle spare interrupts no other process.
//! * Before the first processes have resumed from `MPI_Init`, no checkpoint exists: the job starts
//!   again from its beginning. A process that was killed before it used MPI is started again alone.
//! * After all workers have reported `AtEnd`, only exit statuses count.
//!
//! The job ends early in these cases:
//!
//! * The program ends it: a process exits before the end, or calls MPI_Abort.
//! * Not all guardians have joined within [`JOIN_TIMEOUT`].
//! * The kernel has killed a process because memory was exhausted, and no spare can replace the
//!   process.
//! * Neither a process that was in a generation nor a replica store is left.
//! * The job would have to start again from its beginning, but has printed output.
//! * The number of failures in succession, or of starts from the beginning, reaches a limit.
//!
//! A node judges the silence of the leader by [`NodeLease`]. The leader judges the silence of nodes
//! by [`PeerSilence`], and so do a guardian and its manager judge each other. The leader decides
//! about silent guardians by [`GuardianWatch`].
//!
//! The crate uses no sockets, no clock and no MPI: time is passed in, and `tests/simulator`
//! simulates everything else.
#![forbid(unsafe_code)]

mod action;
mod doubt;
mod event;
mod guardian_watch;
mod hang;
mod job;
mod member;
mod node_lease;
mod peer_silence;
mod silence_limits;

pub use action::{Action, BegunGeneration};
pub use doubt::{DOUBT_TIMEOUT, Doubt};
pub use event::{Domain, Ending, Event, Node, ProcessHistory};
pub use guardian_watch::{GuardianAction, GuardianSilence, GuardianWatch};
pub use hang::{
    CallSample, HangAction, HangLimits, InactivityKind, JobWatch, ProcessSample, ProcessState,
    ProcessWatch,
};
pub use job::{JOIN_TIMEOUT, Job};
pub use node_lease::{HEARTBEAT_INTERVAL, NodeLease};
pub use peer_silence::{GuardianLimits, PeerSilence, SilenceChange};
pub use silence_limits::SilenceLimits;
pub use understudy_messages::{GenerationStart, JobOrder, NodeEnd, ToGuardian, ToManager};
pub use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};
