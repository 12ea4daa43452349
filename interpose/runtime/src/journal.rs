//! The journal of the initialisation phase: the outcome of every MPI call from the end of `MPI_Init` to the end of the
//! phase, and its replay (Cantwell and Nielsen 2018, sections 2.2 to 2.4).
//!
//! A call's outcome is what it returned and what it wrote on the user side, by address: the user side of every process
//! that replays is laid out alike, so nothing needs to be known about the arguments then. What was written follows from
//! the call table ([`outputs`]), for requests when they end. A replay runs the program again from `MPI_Init`, in a child
//! process ([`crate::rehearsal`]), with every call answered from the journal ([`replay`]) and its effects on the outside world
//! held back ([`hold`]).
#![allow(unsafe_code)]

mod format;
pub mod hold;
pub mod outputs;
mod recorder;
pub mod replay;
mod typemap;

use crate::arch::{self, Frame};
use crate::cell::Main;
use outputs::Call;
pub use recorder::Recorder;
use std::time::{Duration, Instant};

/// A phase that is recorded.
pub struct Phase {
    /// Its calls.
    pub recorder: Recorder,
    /// The call of `MPI_Init`.
    pub begin: Frame,
    /// How long it took.
    pub took: Duration,
    began: Instant,
    /// The epoch at its end.
    epoch: u64,
}

/// What is being recorded.
static PHASE: Main<Option<Phase>> = Main::new(None);
/// A phase whose last cut has been taken.
static ENDED: Main<Option<Phase>> = Main::new(None);

/// `MPI_Init` is about to return to the program: from here outcomes are recorded.
pub fn start() {
    let Some(frame) = arch::top_frame() else { return };
    *PHASE.get() = Some(Phase {
        recorder: Recorder::default(),
        // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
        begin: unsafe { *frame },
        took: Duration::ZERO,
        began: Instant::now(),
        epoch: 0,
    });
    arch::set_recording(true);
}

fn stop() -> Option<Phase> {
    arch::set_recording(false);
    PHASE.get().take()
}

/// Nothing more is recorded, and what was recorded is forgotten: the program is about to be rolled back.
pub fn give_up() {
    if stop().is_some() || ENDED.get().take().is_some() {
        log::info!("the initialisation phase is not recorded to its end");
    }
}

/// A handler has returned, with these bits in the registers for integers and doubles.
///
/// # Safety
/// The frame must be that of the call.
pub unsafe extern "C" fn record_call(frame: *const Frame, integer: u64, double: u64) {
    let is_outermost = arch::top_frame().is_some_and(|top| top.cast_const() == frame);
    let Some(phase) = PHASE.get().as_mut().filter(|_| is_outermost && !arch::is_rewound()) else {
        return;
    };
    // SAFETY: handed on to the caller.
    let frame = unsafe { &*frame };
    if phase.recorder.call(frame, integer, double).is_err() {
        log::info!(
            "a call that cannot be recorded (slot {}) ends the recording",
            frame.slot
        );
        stop();
    }
}

/// A receive of the present call got this many bytes.
#[inline]
pub fn received(bytes: usize) {
    if let Some(phase) = PHASE.get() {
        phase.recorder.received(bytes);
    }
}

/// A request has ended, or is seen to have; see [`Recorder::ended`].
#[inline]
pub fn ended(index: u32, bytes: impl FnOnce() -> Option<usize>, stays: bool) {
    if let Some(phase) = PHASE.get() {
        phase.recorder.ended(index, bytes(), stays);
    }
}

/// A cut is being taken for this epoch. The first one after `MPI_Init` is the end of the phase.
pub fn cut(epoch: u64) {
    if let Some(mut phase) = stop() {
        phase.took = phase.began.elapsed();
        phase.epoch = epoch;
        *ENDED.get() = Some(phase);
    }
}

/// The phase that ended with this epoch, once that is committed.
pub fn take_ended(committed: u64) -> Option<Phase> {
    let ended = ENDED.get();
    let is_over = ended.as_ref().is_some_and(|phase| phase.epoch <= committed);
    let phase = if is_over { ended.take() } else { None };
    phase.filter(|phase| phase.epoch == committed)
}

/// What a replay knows a call by: slot, hash of its arguments.
pub fn call_hash(frame: &Frame) -> Option<(u64, u32)> {
    Some((frame.slot, Call::of(frame)?.hash()))
}

/// The answer to a call from the journal that is being replayed.
pub extern "C" fn answer_call() -> u64 {
    replay::answer()
}
