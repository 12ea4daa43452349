//! The journal of the initialisation phase: the outcome of every MPI call from the end of `MPI_Init` to the end of the
//! phase, and its replay (Cantwell and Nielsen 2018, sections 2.2 to 2.4).
//!
//! A call's outcome is what it returned and what it wrote on the user side, by address: the user side of every process
//! that replays is laid out alike, so nothing needs to be known about the arguments then. What was written follows from
//! the call table ([`outputs`]), for requests when they end. A replay runs the program again from `MPI_Init`, in a child
//! process that touches no MPI ([`rehearsal`]), with every call answered from the journal ([`replay`]) and its effects on
//! the outside world held back ([`hold`]).
#![allow(unsafe_code)]

mod format;
mod hold;
pub mod outputs;
mod recorder;
pub mod rehearsal;
mod replay;
mod typemap;

use crate::arch::{self, Frame};
use crate::cell::Main;
use crate::image::PAGE_SIZE;
use crate::{boot, checkpoint};
use outputs::Call;
use recorder::Recorder;
use rehearsal::Script;
use std::time::{Duration, Instant};

/// A journal may take this part of the image it stands for, and in any case so many bytes.
const PART_OF_IMAGE: usize = 4;
const ALWAYS: usize = 1 << 20;

/// A phase that is being recorded.
struct Phase {
    recorder: Recorder,
    began: Instant,
    /// Where the program went on.
    frame: Frame,
}

static PHASE: Main<Option<Phase>> = Main::new(None);
/// The phase that ends at the cut whose checkpoint is under way, and how long it took.
static ENDED: Main<Option<(Phase, Duration)>> = Main::new(None);

/// `MPI_Init` is about to return to the program: from here outcomes are recorded, if they are wanted.
pub fn start() {
    let Some(frame) = arch::top_frame().filter(|_| boot::config().rehearse) else {
        return;
    };
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    let frame = unsafe { *frame };
    let (recorder, began) = (Recorder::default(), Instant::now());
    *PHASE.get() = Some(Phase { recorder, began, frame });
    arch::set_recording(true);
}

fn stop() -> Option<Phase> {
    arch::set_recording(false);
    PHASE.get().take()
}

/// Nothing more is recorded, and what was recorded is forgotten: the program has been rolled back, say.
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

/// A cut is being taken. The first one after `MPI_Init` is the end of the phase.
pub fn cut() {
    if let Some(phase) = stop() {
        let took = phase.began.elapsed();
        *ENDED.get() = Some((phase, took));
    }
}

/// The checkpoint of the last cut has been committed.
pub fn committed() {
    let Some((mut phase, took)) = ENDED.get().take() else {
        return;
    };
    let keep = checkpoint::keep();
    let Ok(saved) = checkpoint::decode(&keep.own.state.bytes) else {
        return;
    };
    let end = saved.frame;
    let journal = phase.recorder.journal();
    let (calls, size) = (journal.calls, journal.size());
    let limit = ALWAYS.max(keep.own.image.page_count() as usize * PAGE_SIZE / PART_OF_IMAGE);
    if size > limit {
        log::info!("the journal of {calls} calls takes {size} bytes, more than {limit}; whole images are kept");
        return;
    }
    let bytes = journal.encode();
    log::info!(
        "{calls} calls recorded in {took:?}: {size} bytes, {} compressed",
        bytes.len()
    );
    let Some(call) = Call::of(&end) else { return };
    rehearsal::ask(Script {
        worker: crate::world::worker(),
        journal: bytes,
        begin: phase.frame,
        end: (end.slot, call.hash()),
        took: took.max(Duration::from_nanos(1)),
        pages: rehearsal::hashes(&saved.user.layout, &keep.own.image, &keep.store, end.rsp),
    });
}

/// The answer to a call from the journal that is being replayed.
pub extern "C" fn answer_call() -> u64 {
    replay::answer()
}
