//! Recording of a phase: start, calls, end.
#![allow(unsafe_code)]

use super::end::Watch;
use super::outputs::Call;
use super::recorder::Recorder;
use super::recording::{Phase, Recording};
use super::sources;
use crate::arch::{self, Frame};
use crate::{DOOR, Runtime};
use crate::{events, told, world};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_numbers::Epoch;
use understudy_settings::Rule;

/// Starts to record outcomes.
///
/// `MPI_Init`, or the cut for the epoch `base`, is about to return to the program. Recording lasts
/// until the rule is satisfied, or the journal is longer than `limit` returns.
pub fn start(rt: &Runtime, rule: &Rule, records: bool, base: Option<Epoch>, limit: fn() -> usize) {
    let Some(frame) = arch::top_frame() else {
        return;
    };
    rt.journal.recording.set(Recording::On(Box::new(Phase {
        recorder: Recorder::new(events::are_kept()),
        // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
        begin: unsafe { *frame },
        base,
        end: None,
        took: Duration::ZERO,
        watch: Watch::new(rt, rule),
        records,
        room: 0,
        limit,
        is_agreed: false,
        epoch: Epoch::NONE,
    })));
    if records {
        sources::watch(true);
    }
    arch::set_recording(true);
}

/// Stops the recording and returns the phase.
fn stop(rt: &Runtime) -> Recording {
    let before = rt.journal.recording.replace(Recording::Off);
    if let Recording::On(_) = before {
        sources::watch(false);
        arch::set_recording(false);
    }
    before
}

/// Returns the epoch at which the recorded phase began, if it began at a cut.
pub fn base(rt: &Runtime) -> Option<Epoch> {
    rt.journal
        .recording
        .borrow()
        .on()
        .filter(|phase| phase.records)?
        .base
}

/// True if a phase is being recorded, or has ended and was not taken.
pub fn is_under_way(rt: &Runtime) -> bool {
    !matches!(*rt.journal.recording.borrow(), Recording::Off)
}

/// Ends the recording and drops the phase before a rollback of the program.
pub fn give_up(rt: &Runtime) {
    if !matches!(stop(rt), Recording::Off) {
        log::info!("the set-up phase is not recorded to its end");
    }
}

/// True if the program has created threads, whose calls a replay cannot repeat.
fn has_threads() -> bool {
    arch::turn::is_foreign() || told::created_threads() > 0
}

#[cold]
fn give_up_for_threads(rt: &Runtime) {
    if !matches!(stop(rt), Recording::Off) && world::is_first_worker(rt) {
        log::warn!("{}", message::STATIC_DATA_WITH_THREADS);
    }
}

/// Records a call whose handler has returned.
///
/// `integer` and `double` are the bits of the result registers.
///
/// # Safety
/// The frame must be that of the call.
pub unsafe extern "C" fn record_call(frame: *const Frame, integer: u64, double: u64) {
    let rt = DOOR.get();
    let is_outermost = arch::top_frame().is_some_and(|top| top.cast_const() == frame);
    if !is_outermost || arch::is_rewound() {
        return;
    }
    if has_threads() {
        return give_up_for_threads(rt);
    }
    // SAFETY: the caller guarantees it.
    let frame = unsafe { &*frame };
    let mut guard = rt.journal.recording.borrow_mut();
    let Some(phase) = guard.on_mut() else { return };
    let place = arch::turn::call_site(frame);
    if sources::row_of(frame.slot as usize).is_none() {
        phase
            .watch
            .call(frame, place, phase.recorder.journal().size());
    }
    if phase.records
        && phase
            .recorder
            .call(rt, frame, place, integer, double)
            .is_err()
    {
        log::info!(
            "a call that cannot be recorded (slot {}) ends the recording",
            frame.slot
        );
        drop(guard);
        stop(rt);
        return;
    }
    drop(guard);
    end_if_too_long(rt);
}

/// Ends a recording whose journal is too long, and frees its memory.
fn end_if_too_long(rt: &Runtime) {
    let (size, room) = match rt.journal.recording.borrow_mut().on_mut() {
        None => return,
        Some(phase) => {
            let size = phase.recorder.journal().size();
            if size <= phase.room {
                return;
            }
            phase.room = (phase.limit)();
            (size, phase.room)
        }
    };
    if size <= room {
        return;
    }
    tell_too_long(rt, size, room);
    if let Recording::On(mut phase) = stop(rt) {
        phase.recorder.close();
        phase.recorder.tell(rt, None);
    }
}

/// Records the number of bytes that a receive of the present call got.
#[inline]
pub fn received(rt: &Runtime, bytes: usize) {
    if arch::is_recording()
        && let Some(phase) = rt.journal.recording.borrow_mut().on_mut()
    {
        phase.recorder.received(bytes);
    }
}

/// Records that a request has completed, or was found complete; see [`Recorder::ended`].
#[inline]
pub fn ended(rt: &Runtime, index: u32, bytes: impl FnOnce() -> Option<usize>, stays: bool) {
    if arch::is_recording()
        && let Some(phase) = rt.journal.recording.borrow_mut().on_mut()
    {
        phase.recorder.ended(index, bytes(), stays);
    }
}

/// True if a phase is being recorded.
pub fn is_recording(rt: &Runtime) -> bool {
    rt.journal.recording.borrow().on().is_some()
}

/// Returns true once, if a cut should be taken soon to end the phase.
pub fn asks_for_cut(rt: &Runtime) -> bool {
    rt.journal
        .recording
        .borrow_mut()
        .on_mut()
        .is_some_and(|phase| phase.watch.asks_for_cut())
}

/// Returns true if this worker's phase may end at this cut.
///
/// `is_regular` is true if the cut would have been taken anyway.
pub fn may_end(rt: &Runtime, is_regular: bool) -> bool {
    let mut guard = rt.journal.recording.borrow_mut();
    let Some(phase) = guard.on_mut() else {
        return true;
    };
    phase.watch.is_over() || (is_regular && phase.watch.is_over_by_default())
}

/// Reports that a journal is too long, so replicas are not reduced.
pub fn tell_too_long(rt: &Runtime, size: usize, limit: usize) {
    let level = if crate::world::is_first_worker(rt) {
        log::Level::Warn
    } else {
        log::Level::Info
    };
    log::log!(level, "{}", message::set_up_log_limit(size, limit));
}

/// Records the agreement of all workers on the end of the phase.
pub fn agree(rt: &Runtime, is_over: bool) {
    if let Some(phase) = rt.journal.recording.borrow_mut().on_mut() {
        phase.is_agreed = is_over;
    }
}

/// Ends the phase at the cut for this epoch, if all workers have agreed.
pub fn cut(rt: &Runtime, epoch: Epoch) {
    if !rt
        .journal
        .recording
        .borrow()
        .on()
        .is_some_and(|phase| phase.is_agreed)
    {
        return;
    }
    if let Recording::On(mut phase) = stop(rt) {
        phase.recorder.finish(rt);
        // Hashed now: later the arguments on the program's stack are overwritten.
        phase.end = arch::top_frame().and_then(|frame| {
            // SAFETY: the frame is that of the call at which the cut is taken.
            let frame = unsafe { &*frame };
            Some((frame.slot, Call::of(frame)?.hash()))
        });
        phase.took = phase.watch.elapsed();
        phase.epoch = epoch;
        rt.journal.recording.set(Recording::Ended(phase));
    }
}

/// Returns the phase that ended with this epoch, when the epoch is committed.
pub fn take_ended(rt: &Runtime, committed: Epoch) -> Option<Phase> {
    let mut recording = rt.journal.recording.borrow_mut();
    let is_over = matches!(&*recording, Recording::Ended(phase) if phase.epoch <= committed);
    let before = std::mem::replace(&mut *recording, Recording::Off);
    match before {
        Recording::Ended(phase) if is_over => (phase.epoch == committed).then_some(*phase),
        before => {
            *recording = before;
            None
        }
    }
}
