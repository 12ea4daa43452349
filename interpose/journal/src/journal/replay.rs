//! Replay of the program, with its MPI calls answered from a journal.
#![allow(unsafe_code)]

use super::clock_sources;
use super::format::Journal;
use super::replay_progress::{
    DAMAGED, END_REACHED, INPUT, KIND_BITS, OTHER_CALL, ReplayEnd, ReplayProgress, apply,
    end_replay,
};
use crate::arch::{self, AnsweredResult, Frame};
use crate::generated::EXECUTED;
use crate::{DOOR, Runtime};

/// Reason why a replay did not reach its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The journal cannot be read.
    #[error("the set-up log is damaged")]
    Journal,
    /// The program made another call than the recorded one.
    #[error("call {0} differs from the recorded one")]
    Call(u64),
    /// The program made a system call that can be neither suppressed nor repeated.
    #[error("the program made system call {0}, which cannot be repeated")]
    Effect(u64),
    /// Index of a file that is too long to be recorded and has changed.
    #[error("a file that the program reads has changed")]
    Input(u64),
}

/// Runs the program from `begin` to the call that follows the last recorded one.
///
/// The journal's first record is the outcome of the call at `begin`. `end` is slot and hash of the
/// arguments of the call that ends the replay. The program runs on its own stack; its calls reach
/// [`answer`] through the dispatch table. At the end of the replay `answer` leaves the program's
/// stack and does not return ([`arch::leave_user`]); this function then returns the reason.
///
/// # Safety
/// The program side must be as it was at `begin`. The replay changes the program side, and changes
/// the dispatch table permanently.
pub unsafe fn run(
    rt: &Runtime,
    journal: &[u8],
    begin: &Frame,
    end: (u64, u32),
) -> Result<(), ReplayError> {
    let mut reader = Journal::decode(journal).map_err(|_| ReplayError::Journal)?;
    let first = reader
        .next()
        .map_err(|_| ReplayError::Journal)?
        .ok_or(ReplayError::Journal)?;
    apply(&first.written);
    let result = first.result;
    rt.journal.replay.set(Some(ReplayProgress {
        reader,
        calls: 1,
        end,
    }));
    clock_sources::set_intercepted(true);
    let executed = |slot| EXECUTED.iter().any(|&other| other as usize == slot);
    arch::answer_all(executed, answer);
    // SAFETY: the caller has put the program side into its state at `begin`.
    let end = unsafe { arch::run_user(begin, result) };
    let number = end >> KIND_BITS;
    match end & ((1 << KIND_BITS) - 1) {
        END_REACHED => Ok(()),
        DAMAGED => Err(ReplayError::Journal),
        OTHER_CALL => Err(ReplayError::Call(number)),
        INPUT => Err(ReplayError::Input(number)),
        _ => Err(ReplayError::Effect(number)),
    }
}

/// Returns the answer to the call in the top frame.
extern "C" fn answer() -> AnsweredResult {
    let rt = DOOR.get();
    // The borrow must end before `end_replay`, which leaves this stack without dropping values.
    let answer = match &mut *rt.journal.replay.borrow_mut() {
        Some(progress) => progress.answer(),
        None => Err(ReplayEnd {
            kind: DAMAGED,
            number: 0,
        }),
    };
    answer.unwrap_or_else(|end| end_replay(end))
}
