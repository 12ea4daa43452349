//! A new phase: a program that sets its static data up anew (a mesh that is refined) says so with `MPI_Pcontrol`.
//!
//! It begins at the next cut, and its journal is replayed by a process that is what the worker was there: one that has replayed
//! the phase before, and has then got what had changed by that cut ([`Base`]).
#![allow(unsafe_code)]

use super::own_memory;
use super::worker;
use super::{replays, room};
use crate::cell::Main;
use crate::copies::{Base, Way};
use crate::image::absent::Sums;
use crate::image::epoch::Image;
use crate::image::runs::{self, PageIndex, PageRun};
use crate::image::store::PageStore;
use crate::image::{PAGE_SIZE, remap};
use crate::{copies, fault, journal, told, user, world};
use std::collections::HashMap;
use std::ffi::c_int;
use std::os::unix::fs::FileExt;
use understudy_numbers::Epoch;

/// What is known of new phases.
struct NewPhase {
    /// The program has asked for one.
    is_asked: bool,
    /// All workers have, and it begins with the next cut.
    is_agreed: bool,
    /// What the process was at the cut with which the one that is under way has begun.
    base: Option<Base>,
}

const NOTHING: NewPhase = NewPhase {
    is_asked: false,
    is_agreed: false,
    base: None,
};

static STATE: Main<NewPhase> = Main::new(NOTHING);

/// The program has called `MPI_Pcontrol`.
pub fn control(level: c_int) {
    if replays() && world::is_protected() && told::config().new_phase == Some(level) {
        STATE.borrow_mut().is_asked = true;
    }
}

/// Whether a cut should be taken for it.
pub fn asks_for_cut() -> bool {
    STATE.borrow().is_asked
}

/// At a cut: whether a new phase may begin here, as far as this worker is concerned.
pub fn may_begin() -> bool {
    STATE.borrow().is_asked && !journal::is_under_way() && !worker::is_waiting()
}

/// Whether it may in all workers.
pub fn agree(may_begin: bool) {
    STATE.borrow_mut().is_agreed = may_begin;
}

/// A cut is being taken for this epoch.
pub fn cut(epoch: Epoch) {
    if STATE.borrow().is_agreed {
        STATE.set(NOTHING);
        // The others must not wait for one who has nothing to build on.
        journal::start(&told::config().init_end, worker::script().is_some(), Some(epoch), room);
        fault::point("phase.begin", epoch);
    }
}

/// An epoch is committed; it may be the one with which a phase has begun.
pub fn keep_base(epoch: Epoch) {
    if journal::base() != Some(epoch) || STATE.borrow().base.is_some() {
        return;
    }
    let Some(script) = worker::script() else { return };
    let Way::Replay(before) = &script.way else { return };
    let keep = copies::keep();
    let (pages, content) = changed(&keep.own.image, &keep.store, &script.pages);
    let base = Base {
        before: before.clone(),
        state: keep.own.state.bytes.clone(),
        pages,
        content: lz4_flex::block::compress_prepend_size(&content),
    };
    STATE.borrow_mut().base = Some(base);
}

/// Pages of an image that are not as the phase before has left them, and their contents.
fn changed(image: &Image, store: &PageStore, known: &[Sums]) -> (Vec<PageRun>, Vec<u8>) {
    let known: HashMap<PageIndex, u64> = known.iter().flat_map(Sums::each).collect();
    let (mut pages, mut content) = (Vec::new(), Vec::new());
    for run in image.runs() {
        let at = store.ptr(run.extent().first);
        let sums = store.sums(std::slice::from_ref(run));
        for (number, (page, sum)) in (run.pages.start.0..).map(PageIndex).zip(sums).enumerate() {
            if known.get(&page) != Some(&sum) {
                runs::push(&mut pages, PageRun::between(page.0, page.0 + 1));
                // SAFETY: the store holds the run's pages there, one after the other.
                content.extend_from_slice(unsafe { std::slice::from_raw_parts(at.add(number * PAGE_SIZE), PAGE_SIZE) });
            }
        }
    }
    (pages, content)
}

/// That of the phase that has ended.
pub fn take_base() -> Option<Base> {
    STATE.borrow_mut().base.take()
}

/// The program is about to be rolled back.
pub fn forget() {
    STATE.set(NOTHING);
}

/// Makes this process, which is a child at the end of the phase before, what the worker was when the new one began. Descriptors
/// stay what they are.
pub fn lay_over(base: &Base) -> Result<(), String> {
    let saved = copies::decode(&base.state)?;
    saved.user.restore_libraries().map_err(|error| error.to_string())?;
    let layout = &saved.user.layout;
    remap::restore_layout(layout, user::State::zones()).map_err(|error| error.to_string())?;
    let content = lz4_flex::block::decompress_size_prepended(&base.content).map_err(|error| error.to_string())?;
    let memory = own_memory::writable().map_err(|error| error.to_string())?;
    let mut rest = content.as_slice();
    for run in &base.pages {
        let (bytes, more) = split(rest, run)?;
        memory
            .write_all_at(bytes, run.range().start)
            .map_err(|error| format!("page {:#x}: {error}", run.start.addr()))?;
        rest = more;
    }
    saved.user.restore_for_replay().map_err(|error| error.to_string())
}

fn split<'a>(bytes: &'a [u8], run: &PageRun) -> Result<(&'a [u8], &'a [u8]), String> {
    bytes
        .split_at_checked(run.pages as usize * PAGE_SIZE)
        .ok_or_else(|| "pages are missing".to_owned())
}
