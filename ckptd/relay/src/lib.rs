//! The output relay: every byte of standard output and error appears exactly once.
//!
//! A rank's descriptors 1 and 2 are write ends of pipes. Their read ends belong to a relay process
//! ([`run`]), one for each rank, which survives the rank's `SIGKILL`. The relay forwards the output
//! to the real descriptors and maintains a [`Ledger`]: a small file that relay and rank map
//! `MAP_SHARED`.
//!
//! # Positions
//!
//! Each [`Stream`] has two kinds of counters. A [`RawCount`] is the number of bytes that have
//! passed through the pipe; it only grows. A [`Position`] is a position in the output of a run
//! without failures, given by the line and the byte in the line; a rollback sets it back. The
//! *high-water mark* is the position behind the last byte that was forwarded. Bytes below it repeat
//! earlier output and are dropped; bytes from it on are forwarded.
//!
//! Programs print times. A line that contains a time may have another length when it is printed
//! again, so that whole lines are dropped, whatever their length is. Only if a line was forwarded
//! in part, its repetition is dropped by bytes; the end of that line is never dropped. So such a
//! line may consist of the first part of one printing and the second part of the other, but no
//! other line is affected.
//!
//! # Protocol
//!
//! * The relay keeps the stream's `seq` odd during `read(2)` and the resulting changes of counters.
//!   So `raw_read + FIONREAD` between two equal even readings of `seq` is exactly the number of
//!   bytes that the rank has written.
//! * The relay counts the lines. A rank that needs its position waits until the relay has read
//!   everything.
//! * A rank that is rolled back posts one command: "the byte at raw count R has position P" (and,
//!   for a replacement, "the high-water mark is H"). R is the number of bytes that the rank has
//!   written. The relay checks for a command after each read and applies it before byte R; it
//!   splits the chunk if necessary. Bytes from R on were written after the command was posted, so
//!   that none of them can be missed. A command at the very end is applied at the end of file.
//! * While the rank writes nothing, the relay ignores a command at R = written: the rank may
//!   overwrite it. A command at an earlier R must be applied first; the rank waits for that.
//! * A stream's state becomes `Ended` when its last byte is forwarded. Then `high_water` is final,
//!   and a survivor can read it ([`LedgerObserver::final_high_water`]).
//!
//! # Fatal signals
//!
//! A rank that is killed by a fault of its own records the signal and the position in the program
//! ([`Note`]).
//!
//! The protocol assumes that one thread of one process writes to the stream during an operation of
//! the rank, and that the relay itself is not killed. Sources: pipe(7), poll(2), mmap(2), flock(2),
//! and ioctl_list(2) for `FIONREAD`, which the pipe driver supports at both ends.

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
