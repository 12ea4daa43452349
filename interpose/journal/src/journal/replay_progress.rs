//! Answers of a replay from its journal, and the ends of a replay.
#![allow(unsafe_code)]

use super::call_outputs::Call;
use super::clock_sources;
use super::format::{END_SLOT, FormatError, JournalReader, Written};
use crate::arch::{self, AnsweredResult};
use crate::generated::Proc;

pub(super) struct ReplayProgress {
    pub(super) reader: JournalReader,
    pub(super) calls: u64,
    pub(super) end: (u64, u32),
}

pub(super) const END_REACHED: u64 = 0;
pub(super) const DAMAGED: u64 = 1;
pub(super) const OTHER_CALL: u64 = 2;
const SYSTEM_CALL: u64 = 3;
pub(super) const INPUT: u64 = 4;
pub(super) const KIND_BITS: u32 = 3;

/// Ends the replay, as the program made a system call that cannot be repeated.
pub fn end_for_system_call(system_call: u64) -> ! {
    end_replay(SYSTEM_CALL, system_call)
}

/// Ends the replay, as this file has changed since it was read.
pub fn end_for_input(number: u32) -> ! {
    end_replay(INPUT, number.into())
}

pub(super) fn end_replay(kind: u64, number: u64) -> ! {
    // SAFETY: the program runs inside of `run`, where no value waits to be dropped.
    unsafe { arch::leave_user(kind | number << KIND_BITS) }
}

pub(super) fn apply(written: &[Written]) {
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
    procedure
        .map(Proc::name)
        .or_else(|| clock_sources::name_of(slot))
}

impl ReplayProgress {
    /// Returns the answer to the call in the top frame.
    ///
    /// The error is the reason why the replay ends.
    pub(super) fn answer(&mut self) -> Result<AnsweredResult, (u64, u64)> {
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
                apply(&record.written);
                Ok(AnsweredResult::from_bits(record.result))
            }
            Ok(Some(record))
                if record.slot == END_SLOT
                    && (frame.slot, hash) == (self.end.0, Some(self.end.1)) =>
            {
                apply(&record.written);
                Err((END_REACHED, 0))
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
            Err(FormatError::Foreign | FormatError::Version(_) | FormatError::Damaged) => {
                Err((DAMAGED, 0))
            }
        }
    }
}
