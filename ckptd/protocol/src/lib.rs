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
//! manager, which begins the next generation.
//!
//! Every failure, at any time, is answered by the next generation. The job ends early if the
//! program does (a process exits by itself before the end, or calls MPI_Abort), if neither a
//! process that was in a generation nor a replica store is left, or if failures in succession
//! reach a limit.
//!
//! Nodes and the leader judge each other's silence by [`NodeLease`] and [`PeerSilence`]. Guardians
//! and their manager do so by [`PeerSilence`]; the leader decides about guardians that are silent by
//! [`GuardianWatch`].
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
pub use understudy_messages::{GenerationStart, JobOrder, ToGuardian, ToManager};
pub use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};
