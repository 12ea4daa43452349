//! The output relay: every byte of standard output and error appears exactly once.
//!
//! A rank's descriptors 1 and 2 are write ends of pipes. Their read ends belong to a relay process
//! ([`run`]), one for each rank, which survives the rank's `SIGKILL`. The relay forwards the output
//! to the real descriptors and maintains a [`Ledger`]: a small file that relay and rank map
//! `MAP_SHARED`.
//!
//! # Positions
//!
//! The output of each [`Stream`] is counted in two ways. A [`RawCount`] is the number of bytes that
//! have passed through the pipe; it only grows. A [`Position`] is a position in the output of a run
//! without failures, given by the line and the byte in the line; a rollback sets it back. The
//! *high-water mark* is the position behind the last byte that was forwarded. Bytes below it repeat
//! earlier output and are dropped; bytes from it on are forwarded.
//!
//! Positions count lines, because a repeated line may have another length than the first printing:
//! many programs print times. A line that was forwarded as a whole is therefore dropped as a whole,
//! whatever its length. Bytes are counted only in the line that contains the high-water mark, which
//! was forwarded in part: as many bytes of its repetition are dropped. Example: the output
//! up to the failure was `time 12.75 s`, `total 7` and the incomplete line `ti`. The repetition is
//! `time 9 s`, `total 7`, `time 3`. The relay drops two lines and two bytes, and forwards `me 3`.
//! Only the line at the high-water mark can consist of bytes of both printings.
//!
//! # Protocol
//!
//! * The number of bytes that the rank has written is `raw_read + FIONREAD`, the bytes that the
//!   relay has read and those still in the pipe. A `read(2)` moves bytes between these numbers, so
//!   `seq` is a sequence lock: the relay keeps `seq` odd during `read(2)` and the resulting changes
//!   of counters, and the rank repeats its loads until `seq` is even and unchanged.
//! * The relay counts the lines. A rank that needs its position waits until the relay has read
//!   everything.
//! * A rank that is rolled back posts one command: "the byte at raw count R has position P" (and,
//!   for a replacement, "the high-water mark is H"). R is the number of bytes that the rank has
//!   written. The relay checks for a command after each read and applies it before byte R; it
//!   splits the chunk if necessary. The relay cannot miss the command, because the rank writes the
//!   byte at R after it has posted the command. If the rank never writes that byte, the command is
//!   applied at the end of file.
//! * The ledger has room for one command. As long as the rank has not written the byte at R, the
//!   relay leaves the command alone, and the rank may overwrite it. Afterwards the rank waits until
//!   the relay has applied it.
//! * A stream's state becomes `Ended` when its last byte is forwarded. Then `high_water` is final,
//!   and a survivor can read it ([`LedgerObserver::final_high_water`]).
//!
//! The protocol assumes that nothing writes to the stream while the rank uses the ledger
//! ([`LedgerView`]), and that the relay itself is not killed. Sources: pipe(7), poll(2), mmap(2),
//! flock(2), and ioctl_list(2) for `FIONREAD`, which the pipe driver supports at both ends.
//!
//! # Fatal signals
//!
//! A rank that is killed by a signal such as SIGSEGV or SIGABRT records the signal, and the
//! position in the program if the program itself has caused the signal ([`Note`]).

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
pub use survey::{LedgerContents, LedgerRank, has_launcher, survey};
pub use view::LedgerView;
