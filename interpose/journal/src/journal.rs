//! Journal of the set-up phase: outcomes of MPI calls, and their replay.
//!
//! The journal holds the outcome of every MPI call from the end of `MPI_Init` to the end of the
//! set-up phase (Cantwell and Nielsen 2018, sections 2.2 to 2.4).
//!
//! The outcome of a call is its return value and the bytes that it wrote on the program side, by
//! address. The layout of the program side is equal in all processes that replay, so a replay needs
//! no information about the arguments. The written bytes follow from the call table ([`outputs`]);
//! those of a request are recorded when the request completes. A replay runs the program from
//! `MPI_Init` in a child process (`rehearsal`). Every call is answered from the journal
//! ([`replay`]), and effects on the outside world are suppressed ([`hold`]).

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
