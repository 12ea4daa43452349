//! Static data that are rebuilt instead of kept (Cantwell and Nielsen 2018, sections 2.3 and 2.4).
//!
//! A worker's initialisation phase is recorded ([`crate::journal`]), and the holder of its copy has it rehearsed ([`holder`]): its
//! *seed* ([`seed`]), a process that was forked at the end of `MPI_Init`, has a child ([`child`]) replay the phase and compare the
//! pages that come out with the worker's. Pages that come out equal are proved to be static data that a replay rebuilds in another
//! process; the worker tells the holders of its copies ([`worker`]), who need not keep them any more. When a newcomer takes a
//! part, its seed replays the phase once more and hands the pages over ([`rebuild`]). Every page is compared with its checksum
//! before it is used.
//!
//! Nor does the worker keep a copy itself ([`own_pages`]): its memory holds these pages as they are at the last epoch, unless
//! it has written one for the first time since. If it has to go back just then, its own seed makes the page again.
//!
//! A page that changes after the phase is part of a checkpoint, and so of the copy, from then on.

pub mod again;
mod base;
mod child;
mod decision;
mod finding;
mod holder;
mod inputs;
mod message;
mod own_pages;
mod rebuild;
mod seed;
mod wanted;
mod worker;

use crate::cell::{Field, runtime};
use crate::{copies, headroom, told, user, world};
use std::cell::Cell;
use std::rc::Rc;
use understudy_numbers::{Epoch, Worker};
use understudy_settings::{LogLimit, Rehearse, Static};

pub use own_pages::{from_own_memory, keep_unchanged, put_back};
pub use rebuild::{Offer, Rebuild, offer};
pub use worker::{damage_journals, keep as keep_script, script as own_script};

runtime! {
    pub struct Runtime: copies::Runtime {
        /// A decision is to be made.
        is_open: Cell<bool> = Cell::new(false),
        messages: Field<Vec<(bool, message::Message)>> = Field::new(Vec::new()),
        /// Files that were open at the end of `MPI_Init`.
        inputs: Field<Vec<inputs::Input>> = Field::new(Vec::new()),
        holder: Field<Option<holder::State>> = Field::new(None),
        /// The process for replays.
        seed: Field<Option<Rc<seed::Seed>>> = Field::new(None),
        /// What the phase under way has begun with.
        base: Field<Option<copies::Base>> = Field::new(None),
        /// This worker's own script.
        worker: Field<Option<worker::State>> = Field::new(None),
        /// Whether another phase is wanted.
        new_phase: Field<again::NewPhase> = Field::new(again::NOTHING),
    }
}

/// While the program sets itself up, a part of its memory may be nothing yet.
const LEAST_ROOM: usize = 16 << 20;

/// Whether static data are rebuilt by a replay, where that is possible.
fn replays() -> bool {
    let config = told::config();
    match config.static_data {
        Static::Replay => true,
        Static::Auto => config.scheme.is_whole_copies(),
        Static::Image | Static::Disk => false,
    }
}

/// Whether the program's memory is compared with that of replays, so that nothing but the program may change it.
pub fn compares() -> bool {
    replays() || told::config().rehearse != Rehearse::Off
}

/// Whether copies do without static data.
fn is_used() -> bool {
    replays() || told::config().static_data == Static::Disk
}

/// Of so many workers one is rehearsed that stands for the others.
const SAMPLE: u32 = 4;

/// Whether phases are rehearsed.
fn is_on() -> bool {
    told::config().rehearse != Rehearse::Off || is_used()
}

/// Whether this worker's is. Nothing follows for the others, as nothing is proved of them.
fn is_rehearsed(worker: Worker) -> bool {
    told::config().rehearse != Rehearse::Sample || worker.0.is_multiple_of(SAMPLE)
}

/// Whether a worker does without copies of its own static data. An epoch on disk is complete in itself: with a disk level that
/// is only possible if they are on disk, too.
fn spares_own() -> bool {
    told::config().static_data == Static::Disk || (replays() && told::config().disk.is_none())
}

/// This process stands at the end of `MPI_Init`.
pub fn prepare(rt: &Runtime) {
    if is_on() && world::is_protected() && !user::has_threads(rt) {
        inputs::note(rt);
        seed::plant(rt);
    }
}

/// `MPI_Init` is about to return to the program of a worker, for the first time or after a failure in the phase.
pub fn start(rt: &Runtime) {
    prepare(rt);
    if !world::is_protected() {
        return;
    }
    if is_on() {
        let records = compares() && is_rehearsed(world::worker(rt));
        crate::journal::start(rt, &told::config().init_end, records, None, room);
    }
    decision::begin(rt);
}

/// How long a journal may get while it is recorded, in bytes.
fn room() -> usize {
    match told::config().log_limit {
        LogLimit::Bytes(bytes) => bytes,
        part => {
            let [anonymous, _] = headroom::resident_memory();
            part.of(anonymous as usize).max(LEAST_ROOM)
        }
    }
}

/// A cut is being taken for this epoch: a phase may end with it, or begin.
pub fn cut(rt: &Runtime, epoch: Epoch) {
    crate::journal::cut(rt, epoch);
    again::cut(rt, epoch);
    worker::cut(rt, epoch);
}

/// Goes on as far as possible. Called between checkpoints.
pub fn poll(rt: &Runtime) {
    if is_on() {
        holder::poll(rt);
        base::keep(rt, copies::epoch(rt), || own_script(rt));
        worker::poll(rt);
    }
}

/// After a failure: messages are forgotten, and a child ends.
pub fn interrupt(rt: &Runtime) {
    crate::journal::give_up(rt);
    again::forget(rt);
    holder::interrupt(rt);
    worker::interrupt(rt);
    rebuild::interrupt(rt);
}
