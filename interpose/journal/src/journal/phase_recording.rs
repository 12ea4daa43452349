//! Recording of a phase: start, calls, end.
#![allow(unsafe_code)]

use super::call_outputs::Call;
use super::clock_sources;
use super::phase_end::PhaseEndDetector;
use super::recorder::Recorder;
use super::recording::{RecordedPhase, RecordingStage};
use crate::arch::{self, Frame};
use crate::{DOOR, Runtime};
use crate::{events, process_info, world};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_numbers::Epoch;
use understudy_settings::InitEndRule;

/// Starts the recording of a phase.
///
/// `MPI_Init`, or the cut for the epoch `base`, is about to return to the program. The recording
/// ends at a cut at which all workers agree to end, each by its own rule. The recording is
/// abandoned if the journal exceeds the result of `limit`, if the program creates threads, or at a
/// call that cannot be recorded. If `records` is false, only the end of the phase is detected, and
/// no journal is written.
pub fn start(
    rt: &Runtime,
    rule: &InitEndRule,
    records: bool,
    base: Option<Epoch>,
    limit: fn() -> usize,
) {
    let Some(frame) = arch::top_frame() else {
        return;
    };
    rt.journal
        .recording
        .set(RecordingStage::On(Box::new(RecordedPhase {
            recorder: Recorder::new(events::is_recording()),
            // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
            begin: unsafe { *frame },
            base,
            end: None,
            duration: Duration::ZERO,
            end_detector: PhaseEndDetector::new(rt, rule),
            records,
            limit_bytes: 0,
            limit,
            is_agreed: false,
            epoch: Epoch::NONE,
        })));
    if records {
        clock_sources::set_intercepted(true);
    }
    arch::set_recording(true);
}

/// Stops the recording and returns the phase.
fn stop(rt: &Runtime) -> RecordingStage {
    let before = rt.journal.recording.replace(RecordingStage::Off);
    if let RecordingStage::On(_) = before {
        clock_sources::set_intercepted(false);
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
    !matches!(*rt.journal.recording.borrow(), RecordingStage::Off)
}

/// Ends the recording and drops the phase before a rollback of the program.
pub fn drop_recording(rt: &Runtime) {
    if !matches!(stop(rt), RecordingStage::Off) {
        log::info!("a rollback ends the recording of the set-up phase");
    }
}

/// True if the program has created threads, whose calls a replay cannot repeat.
fn has_threads() -> bool {
    arch::mpi_lock::is_other_thread() || process_info::created_threads() > 0
}

#[cold]
fn drop_recording_for_threads(rt: &Runtime) {
    if !matches!(stop(rt), RecordingStage::Off) && world::is_first_worker(rt) {
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
        return drop_recording_for_threads(rt);
    }
    // SAFETY: the caller passes the frame of the call, which lives until the call returns.
    let frame = unsafe { &*frame };
    let mut guard = rt.journal.recording.borrow_mut();
    let Some(phase) = guard.on_mut() else { return };
    let call_site = arch::mpi_lock::call_site(frame);
    if clock_sources::row_of(frame.slot as usize).is_none() {
        phase
            .end_detector
            .call(frame, call_site, phase.recorder.journal().size());
    }
    if phase.records
        && phase
            .recorder
            .call(rt, frame, call_site, integer, double)
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
///
/// The limit is computed only when the journal exceeds the last computed limit, since the
/// computation takes time.
fn end_if_too_long(rt: &Runtime) {
    let (size, limit) = match rt.journal.recording.borrow_mut().on_mut() {
        None => return,
        Some(phase) => {
            let size = phase.recorder.journal().size();
            if size <= phase.limit_bytes {
                return;
            }
            phase.limit_bytes = (phase.limit)();
            (size, phase.limit_bytes)
        }
    };
    if size <= limit {
        return;
    }
    report_too_long(rt, size, limit);
    if let RecordingStage::On(mut phase) = stop(rt) {
        phase.recorder.close();
        phase.recorder.report_sizes(rt, None);
    }
}

/// Records the number of bytes that a receive of the present call has received.
#[inline]
pub fn record_received(rt: &Runtime, bytes: usize) {
    if arch::is_recording()
        && let Some(phase) = rt.journal.recording.borrow_mut().on_mut()
    {
        phase.recorder.received(bytes);
    }
}

/// Records the completion of a request; see [`Recorder::record_completion`].
#[inline]
pub fn record_completion(
    rt: &Runtime,
    index: u32,
    bytes: impl FnOnce() -> Option<usize>,
    stays: bool,
) {
    if arch::is_recording()
        && let Some(phase) = rt.journal.recording.borrow_mut().on_mut()
    {
        phase.recorder.record_completion(index, bytes(), stays);
    }
}

/// True if a phase is being recorded.
pub fn is_recording(rt: &Runtime) -> bool {
    rt.journal.recording.borrow().on().is_some()
}

/// Returns true once, if a cut should be taken soon to end the phase.
pub fn take_cut_request(rt: &Runtime) -> bool {
    rt.journal
        .recording
        .borrow_mut()
        .on_mut()
        .is_some_and(|phase| phase.end_detector.take_cut_request())
}

/// Returns true if this worker's phase may end at this cut.
///
/// The result is also true if no phase is recorded.
///
/// `is_regular` is true if the cut is taken for another reason than the end of a phase.
pub fn may_end(rt: &Runtime, is_regular: bool) -> bool {
    let mut guard = rt.journal.recording.borrow_mut();
    let Some(phase) = guard.on_mut() else {
        return true;
    };
    phase.end_detector.is_over() || (is_regular && phase.end_detector.is_over_by_default())
}

/// Reports that a journal is too long, so replicas are not reduced.
pub fn report_too_long(rt: &Runtime, size: usize, limit: usize) {
    let level = if crate::world::is_first_worker(rt) {
        log::Level::Warn
    } else {
        log::Level::Info
    };
    log::log!(level, "{}", message::set_up_log_limit(size, limit));
}

/// Records the agreement of all workers on the end of the phase.
pub fn set_agreed(rt: &Runtime, is_over: bool) {
    if let Some(phase) = rt.journal.recording.borrow_mut().on_mut() {
        phase.is_agreed = is_over;
    }
}

/// Ends the phase at the cut for this epoch, if all workers have agreed.
pub fn end_at_cut(rt: &Runtime, epoch: Epoch) {
    if !rt
        .journal
        .recording
        .borrow()
        .on()
        .is_some_and(|phase| phase.is_agreed)
    {
        return;
    }
    if let RecordingStage::On(mut phase) = stop(rt) {
        phase.recorder.finish(rt);
        // The arguments are hashed now, because those on the stack may be overwritten later.
        phase.end = arch::top_frame().and_then(|frame| {
            // SAFETY: the frame is that of the call at which the cut is taken.
            let frame = unsafe { &*frame };
            Some((frame.slot, Call::from_frame(frame)?.hash()))
        });
        phase.duration = phase.end_detector.elapsed();
        phase.epoch = epoch;
        rt.journal.recording.set(RecordingStage::Ended(phase));
    }
}

/// Returns the phase that ended with this epoch, when the epoch is committed.
///
/// A phase that ended with an earlier epoch is dropped.
pub fn take_ended(rt: &Runtime, committed: Epoch) -> Option<RecordedPhase> {
    let mut recording = rt.journal.recording.borrow_mut();
    let is_over = matches!(&*recording, RecordingStage::Ended(phase) if phase.epoch <= committed);
    let before = std::mem::replace(&mut *recording, RecordingStage::Off);
    match before {
        RecordingStage::Ended(phase) if is_over => (phase.epoch == committed).then_some(*phase),
        before => {
            *recording = before;
            None
        }
    }
}
