//! Answers of a replay from its journal, and the ends of a replay.
#![allow(unsafe_code)]

use super::format::{END, NotAJournal, Reader, Written};
use super::outputs::Call;
use super::sources;
use crate::arch::{self, Answer};
use crate::generated::Proc;

pub(super) struct Play {
    pub(super) reader: Reader,
    pub(super) calls: u64,
    pub(super) end: (u64, u32),
}

pub(super) const REACHED: u64 = 0;
pub(super) const DAMAGED: u64 = 1;
pub(super) const OTHER_CALL: u64 = 2;
const EFFECT: u64 = 3;
pub(super) const INPUT: u64 = 4;
pub(super) const KIND_BITS: u32 = 3;

/// Ends the replay, as the program made a system call that cannot be repeated.
pub fn leave_for(system_call: u64) -> ! {
    leave(EFFECT, system_call)
}

/// Ends the replay, as this file has changed since it was read.
pub fn leave_for_input(number: u32) -> ! {
    leave(INPUT, number.into())
}

pub(super) fn leave(kind: u64, number: u64) -> ! {
    // SAFETY: the program runs inside of `run`, where no value waits to be dropped.
    unsafe { arch::leave_user(kind | number << KIND_BITS) }
}

pub(super) fn write(written: &[Written]) {
    for piece in written {
        // SAFETY: the recorded call wrote there, and the layout of the program side is that of the
        // recorded run.
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

impl Play {
    /// Returns the answer to the call in the top frame.
    ///
    /// The error is the reason why the replay ends.
    pub(super) fn answer(&mut self) -> Result<Answer, (u64, u64)> {
        let Some(frame) = arch::top_frame() else {
            return Err((OTHER_CALL, self.calls));
        };
        // SAFETY: the frame is that of the call that is answered.
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
