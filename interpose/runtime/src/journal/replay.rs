//! The program runs again, and its MPI calls are answered from a journal.
#![allow(unsafe_code)]

use super::format::{END, Journal, NotAJournal, Reader, Written};
use super::outputs::Call;
use super::sources;
use crate::arch::{self, Answer, Frame};
use crate::generated::{EXECUTED, Proc};
use crate::journal::{DOOR, Runtime};

/// Why a replay did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Diverged {
    /// The journal cannot be read.
    #[error("the journal is damaged")]
    Journal,
    /// The program made another call than at that time.
    #[error("call {0} is another one than was recorded")]
    Call(u64),
    /// The program did what cannot be held back or made again.
    #[error("the program made system call {0}, which cannot be repeated")]
    Effect(u64),
    /// A file that is too long to be recorded is not what it was; its number among them.
    #[error("a file has changed that the program reads")]
    Input(u64),
}

pub(super) struct Play {
    reader: Reader,
    calls: u64,
    end: (u64, u32),
}

const REACHED: u64 = 0;
const DAMAGED: u64 = 1;
const OTHER_CALL: u64 = 2;
const EFFECT: u64 = 3;
const INPUT: u64 = 4;
const KIND_BITS: u32 = 3;

/// Runs the program from `begin`, whose call's outcome is the journal's first, up to the call with this slot and hash of
/// arguments that follows its last.
///
/// # Safety
/// The user side must be as it was at `begin`. It is changed, and so is the dispatch table, for good.
pub unsafe fn run(
    rt: &Runtime,
    journal: &[u8],
    begin: &Frame,
    end: (u64, u32),
) -> Result<(), Diverged> {
    let mut reader = Journal::decode(journal).map_err(|_| Diverged::Journal)?;
    let first = reader
        .next()
        .map_err(|_| Diverged::Journal)?
        .ok_or(Diverged::Journal)?;
    write(&first.written);
    let result = first.result;
    rt.play.set(Some(Play {
        reader,
        calls: 1,
        end,
    }));
    sources::watch(true);
    let executed = |slot| EXECUTED.iter().any(|&other| other as usize == slot);
    arch::answer_all(executed, answer);
    // SAFETY: handed on to the caller.
    let left = unsafe { arch::run_user(begin, result) };
    let number = left >> KIND_BITS;
    match left & ((1 << KIND_BITS) - 1) {
        REACHED => Ok(()),
        DAMAGED => Err(Diverged::Journal),
        OTHER_CALL => Err(Diverged::Call(number)),
        INPUT => Err(Diverged::Input(number)),
        _ => Err(Diverged::Effect(number)),
    }
}

/// Ends the replay: the program has made a system call that cannot be repeated.
pub fn leave_for(system_call: u64) -> ! {
    leave(EFFECT, system_call)
}

/// Ends the replay: this file is not what it was when it was read.
pub fn leave_for_input(number: u32) -> ! {
    leave(INPUT, number.into())
}

fn leave(kind: u64, number: u64) -> ! {
    // SAFETY: the program runs inside of `run`, where nothing waits to be dropped.
    unsafe { arch::leave_user(kind | number << KIND_BITS) }
}

fn write(written: &[Written]) {
    for piece in written {
        // SAFETY: the recorded call has written there, and the user side is as it was then.
        unsafe {
            std::ptr::copy_nonoverlapping(
                piece.bytes.as_ptr(),
                piece.address as *mut u8,
                piece.bytes.len(),
            )
        };
    }
}

fn name(slot: usize) -> Option<&'static str> {
    let procedure = Proc::from_slot(slot as u32);
    procedure.map(Proc::name).or_else(|| sources::name_of(slot))
}

/// The answer to the call in the top frame.
extern "C" fn answer() -> Answer {
    let rt = DOOR.get();
    // Nothing is dropped by `leave`, so the borrow ends before.
    let answer = match &mut *rt.play.borrow_mut() {
        Some(play) => play.answer(),
        None => Err((DAMAGED, 0)),
    };
    answer.unwrap_or_else(|(kind, number)| leave(kind, number))
}

impl Play {
    /// The answer to the call in the top frame, or with what the replay ends.
    fn answer(&mut self) -> Result<Answer, (u64, u64)> {
        let Some(frame) = arch::top_frame() else {
            return Err((OTHER_CALL, self.calls));
        };
        // SAFETY: the frame of the call that is being answered.
        let frame = unsafe { &*frame };
        let hash = Call::of(frame).map(|call| call.hash());
        self.calls += 1;
        match self.reader.next() {
            Ok(Some(record))
                if u64::from(record.slot) == frame.slot && Some(record.arguments) == hash =>
            {
                write(&record.written);
                Ok(Answer::of(record.result))
            }
            Ok(Some(record))
                if record.slot == END && (frame.slot, hash) == (self.end.0, Some(self.end.1)) =>
            {
                write(&record.written);
                Err((REACHED, 0))
            }
            Ok(record) => {
                let recorded = record.map(|record| name(record.slot.into()));
                let made = name(frame.slot as usize);
                log::debug!(
                    "call {}: {made:?} was made, {recorded:?} was recorded",
                    self.calls
                );
                Err((OTHER_CALL, self.calls))
            }
            Err(NotAJournal::Foreign | NotAJournal::Version(_) | NotAJournal::Damaged) => {
                Err((DAMAGED, 0))
            }
        }
    }
}
