//! The output relay: standard output and error that show every byte exactly once.
//!
//! A rank's descriptors 1 and 2 are write ends of pipes. Their read ends belong to a relay process
//! of its own ([`run`]), which outlives the rank's `SIGKILL`, forwards to the real descriptors, and
//! keeps the books in a [`Ledger`]: a small file that relay and rank map `MAP_SHARED`.
//!
//! # Places
//!
//! Per [`Stream`] there are two ways to count. A [`RawCount`] counts the bytes that passed through
//! the pipe; it only grows. A [`Position`] is a place in the program's undisturbed output, by line
//! and by byte in the line; a rollback sets it back. Bytes are forwarded from the *high-water mark*
//! on, the place behind the last byte that was forwarded; below it, they are the repeat of what has
//! been shown, and dropped.
//!
//! Programs print times. A line that tells one may be of another length when it is printed again,
//! so lines are dropped as lines, whatever their length. Only of a line that was shown in part, the
//! repeat is dropped by bytes; its end never is. So such a line may consist of the first part of
//! one printing and the second of the other, but no other line suffers.
//!
//! # Protocol
//!
//! * The relay holds the stream's `seq` odd around `read(2)` and the counters that follow from it.
//!   So `raw_read + FIONREAD` between two equal even readings of `seq` is exactly what the rank has
//!   written.
//! * Lines are counted by the relay. A rank that wants to know its place waits until the relay has
//!   read everything.
//! * A rank that rolls back posts one command: "the byte at raw count R has place P" (and, for an
//!   understudy, "the high-water mark is H"). R is what it has written so far. The relay looks for
//!   a command after each read and applies it in front of byte R, splitting the chunk if need be. A
//!   byte at or past R was written after the command was posted, so no such byte can be missed. At
//!   end-of-file a command at the very end is applied too.
//! * While the rank writes nothing, the relay does not touch a command at R = written: the rank may
//!   overwrite it. A command at an earlier R has to be applied first; the rank waits for that.
//! * A stream's state is `Ended` when its last byte is forwarded; then `high_water` is final, and a
//!   survivor reads it ([`LedgerObserver::final_high_water`]).
//!
//! # Notes
//!
//! A rank that dies of a fatal signal of its own notes which, and where the program was ([`Note`]).
//!
//! All of it presumes that one thread of one process writes to the stream while a rank-side
//! operation runs, and that the relay itself is not killed. Sources: pipe(7), poll(2), mmap(2),
//! flock(2), and ioctl_list(2) for `FIONREAD`, which the pipe driver answers at both ends.

mod ledger;
mod names;
mod note;
mod observer;
mod position;
mod process;
mod process_state;
mod pump;
mod stream;
mod survey;
mod sys;
mod view;

pub use ledger::{
    LEDGER_LEN, LEDGER_MAGIC, LEDGER_VERSION, Ledger, LedgerError, RankStage, StreamCell,
    StreamState,
};
pub use names::{
    board, in_file_names, job_of_directory, job_of_name, name_in_memory, name_of_directory,
};
pub use note::{FRAMES, Frame, NAME_LEN, NOTE_WORDS, Note, NoteCell};
pub use observer::LedgerObserver;
pub use position::Position;
pub use process::{IN_ERR_FD, IN_OUT_FD, run};
pub use process_state::lives;
pub use stream::{RawCount, Stream};
pub use survey::{Entry, Seat, has_launcher, survey};
pub use view::LedgerView;
