//! The journal of the initialisation phase: the outcome of every MPI call from the end of
//! `MPI_Init` to the end of the phase, and its replay (Cantwell and Nielsen 2018, sections 2.2 to
//! 2.4).
//!
//! A call's outcome is what it returned and what it wrote on the user side, by address: the user
//! side of every process that replays is laid out alike, so nothing needs to be known about the
//! arguments then. What was written follows from the call table ([`outputs`]), for requests when
//! they end. A replay runs the program again from `MPI_Init`, in a child process
//! (`rehearsal`), with every call answered from the journal ([`replay`]) and its effects
//! on the outside world held back ([`hold`]).

mod accounts;
pub mod address_names;
pub mod end;
mod format;
mod function;
pub mod hold;
mod inputs;
mod journal_state;
mod names;
pub mod outputs;
mod phase_recording;
mod play;
mod recorder;
mod recording;
pub mod replay;
mod row;
mod sources;
pub mod typemap;

pub use format::Journal;
pub use inputs::Inputs;
pub(crate) use journal_state::JournalState;
pub use phase_recording::{
    agree, asks_for_cut, base, cut, ended, give_up, is_recording, is_under_way, may_end, received,
    record_call, start, take_ended, tell_too_long,
};
pub use recorder::Recorder;
pub use recording::Phase;
