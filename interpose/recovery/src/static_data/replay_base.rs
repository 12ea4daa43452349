//! Replay base: state of a worker at the cut with which a new phase began.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::copies::{PageSource, ReplayBase, ReplayPlan};
use crate::{copies, journal, user};
use std::cell::Ref;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use understudy_image::PAGE_SIZE;
use understudy_image::absent_pages::PageSums;
use understudy_image::image_delta::Image;
use understudy_image::pages::{self, PageIndex, PageRun};
use understudy_image::process_memory;
use understudy_image::remap::{self, LayoutOrigin};
use understudy_image::store::PageStore;
use understudy_numbers::Epoch;
use understudy_policy::compression;

/// Drops the replay base.
pub fn clear(rt: &Runtime) {
    rt.static_data.base.set(None);
}

/// Saves the replay base if a phase began with this committed epoch.
///
/// `plan` returns the replay plan of the preceding phase.
pub fn save<'rt>(
    rt: &'rt Runtime,
    epoch: Epoch,
    plan: impl FnOnce() -> Option<Ref<'rt, ReplayPlan>>,
) {
    if journal::base(rt) != Some(epoch) || rt.static_data.base.borrow().is_some() {
        return;
    }
    let Some(plan) = plan() else { return };
    let PageSource::Replay(before) = &plan.source else {
        return;
    };
    let replicas = copies::replicas(rt);
    let (pages, content) = changed(&replicas.own.image, &replicas.store, &plan.pages);
    let base = ReplayBase {
        before: before.clone(),
        state: replicas.own.state.bytes.clone(),
        pages,
        content: compression::pack(&content),
    };
    rt.static_data.base.set(Some(base));
}

/// Returns the pages that differ from the result of the phase before, and their contents.
///
/// `known` are the checksums at the end of that phase.
fn changed(image: &Image, store: &PageStore, known: &[PageSums]) -> (Vec<PageRun>, Vec<u8>) {
    let known: HashMap<PageIndex, u64> = known.iter().flat_map(PageSums::each).collect();
    let (mut pages, mut content) = (Vec::new(), Vec::new());
    for run in image.runs() {
        let at = store.ptr(run.extent().first);
        let sums = store.sums(std::slice::from_ref(run));
        for (position, (page, sum)) in (run.pages.start.0..).map(PageIndex).zip(sums).enumerate() {
            if known.get(&page) != Some(&sum) {
                pages::push(&mut pages, PageRun::between(page.0, page.0 + 1));
                // SAFETY: the store holds the pages of the run at this address, one after the
                // other.
                content.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(at.add(position * PAGE_SIZE), PAGE_SIZE)
                });
            }
        }
    }
    (pages, content)
}

/// Returns the replay base of the phase that has ended.
pub fn take(rt: &Runtime) -> Option<ReplayBase> {
    rt.static_data.base.borrow_mut().take()
}

/// Gives this child process the worker's state at the beginning of the new phase.
///
/// The process must be at the end of the preceding phase. Its descriptors do not change.
pub fn apply(rt: &Runtime, base: &ReplayBase) -> Result<(), String> {
    let saved = copies::decode(&base.state)
        .map_err(|why| format!("the state before the phase cannot be read: {why}"))?;
    saved
        .user
        .restore_libraries(rt)
        .map_err(|error| error.to_string())?;
    let layout = &saved.user.layout;
    remap::restore_layout(
        layout,
        user::ProgramState::zones(),
        LayoutOrigin::OtherProcess,
    )
    .map_err(|error| error.to_string())?;
    let content = compression::unpack(&base.content)
        .map_err(|error| format!("the pages before the phase cannot be read: {error}"))?;
    let memory = process_memory::open_memory_for_writing().map_err(|error| error.to_string())?;
    let mut rest = content.as_slice();
    for run in &base.pages {
        let (bytes, more) = split(rest, run)?;
        memory
            .write_all_at(bytes, run.range().start)
            .map_err(|error| format!("page {:#x} cannot be written: {error}", run.start.addr()))?;
        rest = more;
    }
    saved
        .user
        .restore_for_replay()
        .map_err(|error| error.to_string())
}

fn split<'a>(bytes: &'a [u8], run: &PageRun) -> Result<(&'a [u8], &'a [u8]), String> {
    bytes
        .split_at_checked(run.pages as usize * PAGE_SIZE)
        .ok_or_else(|| "pages before the phase are missing".to_owned())
}
