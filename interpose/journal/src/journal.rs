//! Journal of the set-up phase: outcomes of MPI calls, and their replay.
//!
//! The journal contains the outcome of every MPI call of a set-up phase (Cantwell and Nielsen 2018,
//! sections 2.2 to 2.4), except those that a replay executes itself, and of clocks and similar
//! functions of libc (`clock_sources`). The phase begins at the end of `MPI_Init` or at a cut.
//!
//! The outcome of a call is its return value and the bytes that it wrote on the program side, with
//! their addresses. All processes that replay have the layout of the program side of the recorded
//! run, so a replay writes the bytes to the recorded addresses. The replay needs the arguments of a
//! call only to detect that the program makes another call, for which their hash suffices. The call
//! table states which memory a call writes ([`call_outputs`]); bytes of a request are recorded when
//! the request completes. A replay runs the program from the beginning of the phase in a child
//! process (`replay_child`). Every recorded call is answered from the journal ([`replay`]), and
//! effects on the outside world are suppressed ([`syscall_filter`]).

pub mod address_names;
mod breakpoint;
pub mod call_outputs;
mod clock_sources;
mod format;
mod inputs;
mod journal_state;
pub mod phase_end;
mod phase_recording;
mod recorder;
mod recording;
pub mod replay;
mod replay_progress;
mod row;
mod site_sizes;
pub mod syscall_filter;
pub mod typemap;

pub use format::Journal;
pub use inputs::Inputs;
pub(crate) use journal_state::JournalState;
pub use phase_recording::{
    base, drop_recording, end_at_cut, is_recording, is_under_way, may_end, record_call,
    record_completion, record_received, report_too_long, set_agreed, start, take_cut_request,
    take_ended,
};
pub use recorder::Recorder;
pub use recording::RecordedPhase;
