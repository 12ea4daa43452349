//! Answers of a replay from its journal, and the ends of a replay.
#![allow(unsafe_code)]

use super::call_outputs::Call;
use super::clock_sources;
use super::format::{END_SLOT, FormatError, JournalReader, Written};
use crate::arch::{self, AnsweredResult};
use crate::generated::Proc;

/// Replay that is in progress.
pub(super) struct ReplayProgress {
    pub(super) reader: JournalReader,
    /// Number of calls that the program has made.
    pub(super) calls: u64,
    /// Call at which the replay ends: slot, and hash of the arguments.
    pub(super) end: (u64, u32),
}

/// Reason why a replay ends.
pub(super) struct ReplayEnd {
    /// Kind of the reason: one of the constants below this type.
    pub(super) kind: u64,
    /// Number of the call, the system call or the input; zero if unused.
    pub(super) number: u64,
}

pub(super) const END_REACHED: u64 = 0;
pub(super) const DAMAGED: u64 = 1;
pub(super) const OTHER_CALL: u64 = 2;
const SYSTEM_CALL: u64 = 3;
pub(super) const INPUT: u64 = 4;
/// Number of low bits that contain the kind, in the result of [`arch::run_user`].
pub(super) const KIND_BITS: u32 = 3;

/// Ends the replay, as the program made a system call that cannot be repeated.
pub fn end_for_system_call(system_call: u64) -> ! {
    end_replay(ReplayEnd {
        kind: SYSTEM_CALL,
        number: system_call,
    })
}

/// Ends the replay, as the long file with this index has changed.
pub fn end_for_input(index: u32) -> ! {
    end_replay(ReplayEnd {
        kind: INPUT,
        number: index.into(),
    })
}

/// Leaves the program's stack, so that [`super::replay::run`] returns.
pub(super) fn end_replay(end: ReplayEnd) -> ! {
    // SAFETY: the program runs inside of `run`, where no value waits to be dropped.
    unsafe { arch::leave_user(end.kind | end.number << KIND_BITS) }
}

/// Writes the recorded bytes to the program side.
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
    pub(super) fn answer(&mut self) -> Result<AnsweredResult, ReplayEnd> {
        let end = |kind, number| Err(ReplayEnd { kind, number });
        let Some(frame) = arch::top_frame() else {
            return end(OTHER_CALL, self.calls);
        };
        // SAFETY: the frame is that of the call that is answered.
        let frame = unsafe { &*frame };
        let hash = Call::from_frame(frame).map(|call| call.hash());
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
                end(END_REACHED, 0)
            }
            Ok(record) => {
                let recorded = record.map(|record| name(record.slot.into()));
                let made = name(frame.slot as usize);
                log::debug!(
                    "call {}: {made:?} was made, {recorded:?} was recorded",
                    self.calls
                );
                end(OTHER_CALL, self.calls)
            }
            Err(FormatError::Foreign | FormatError::Version(_) | FormatError::Damaged) => {
                end(DAMAGED, 0)
            }
        }
    }
}
